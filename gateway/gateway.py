"""A running gateway: connects cluster, groups and data path, and shuts them down in order."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from types import TracebackType

import structlog
import trio

from coordinator.interface.config import GroupConfig, StaticTakeover
from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.broker_connection import Address, BrokerConnection
from gateway.cluster.cluster import Cluster
from gateway.cluster.coordinator_connections import CoordinatorConnections
from gateway.cluster.embedded import is_embedded
from gateway.cluster.errors import UpstreamRefused
from gateway.data_path.client_warnings import ClientWarnings
from gateway.data_path.config import DataPathConfig
from gateway.data_path.connected_clients import ConnectedClients
from gateway.data_path.connection_limiter import ConnectionLimiter
from gateway.data_path.held_requests import HeldRequests
from gateway.data_path.private_names import PrivateNames
from gateway.data_path.removal import Removal
from gateway.data_path.server import serve
from gateway.events.gateway_events import GatewayEnded, GatewayStarted
from gateway.events.topic_ids import shown_topic_id
from gateway.fleet.fleet_state import SLOTS_FOLDER
from gateway.fleet.member import FleetMember, shard_of
from gateway.fleet.seated_member import SeatedMember
from gateway.groups.clock import Clock
from gateway.groups.cluster_group_reader import ClusterGroupReader
from gateway.groups.compute_thread import ComputeThread
from gateway.groups.forgetting import Forgetting
from gateway.groups.group_limits import GroupLimits
from gateway.groups.group_work import Services
from gateway.groups.groups import Groups
from gateway.groups.groups_elsewhere import GroupsElsewhere
from gateway.groups.pauses import Pauses
from gateway.groups.readiness_reporter import ReadinessReporter
from gateway.groups.regex_permissions import RegexPermissions
from gateway.groups.regex_resolver import RegexResolver
from gateway.hosting.forwarded import WatchedGroups
from gateway.hosting.identity import Gateway
from gateway.hosting.rules import HostingRules
from gateway.hosting.states import Adoption
from gateway.journal.fleet_journal import FleetJournal
from gateway.journal.journal import Journal, Sinks
from gateway.journal.runs import record_run
from gateway.observers.offset_reporter import OffsetReporter
from gateway.operators import NO_OPERATORS, Operators, OperatorsConfig
from gateway.ownership_driver import OwnershipDriver
from gateway.plug_ins.runner import PlugIns
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule
from gateway.requests.coordinators import Coordinators
from gateway.requests.fleet_group_service import FleetGroupService
from gateway.requests.group_service import GroupService
from gateway.requests.machine_calls import MachineCalls
from gateway.requests.owner_calls import OwnerCalls, serve_calls
from gateway.requests.regex_questions import RegexQuestions
from gateway.settings_sources import ENVIRONMENT_PREFIX
from gateway.shard_moves import OrderSource, ShardMoves
from gateway.state_log.log import StateLog
from gateway.state_log.sharded import ShardedLog

log = structlog.get_logger()

ANCHOR_LINGER_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """The configuration of a gateway."""

    upstream: tuple[Address, ...]
    access: Access = PLAIN_ACCESS
    """The gateway's own access to the cluster."""
    access_to_gateways: Access = PLAIN_ACCESS
    """The gateway's own access to other gateways of its fleet."""
    cluster_id: str | None = None
    """The id of the cluster that it serves, if that has one."""
    data_path: DataPathConfig
    groups: GroupConfig
    max_groups: int
    share_of_groups: ShareRule = field(default_factory=ShareRule)
    """How many of them one owner may begin."""
    host_patterns: tuple[str, ...] = ()
    """Patterns (* and ?) of group ids that may be hosted."""
    forward_patterns: tuple[str, ...] = ()
    """Patterns of group ids that stay with the cluster all the same."""
    hold_patterns: tuple[str, ...] = ()
    """Patterns of group ids whose migration is on hold until it is allowed."""
    adoption: Adoption = "manual"
    shows_members: bool = True
    """Whether DescribeGroups lists the members of consumer groups."""
    refuses_defective: bool = False
    """Whether client versions that are known to be defective are refused the new protocol."""
    anchor_linger_s: float = ANCHOR_LINGER_S
    private_topics: tuple[str, ...] = ()
    """The gateway's own topics, which no client may use."""
    private_transactional_ids: tuple[str, ...] = ()
    """The gateway's own transactional ids, which no client may use."""
    take_rules: Callable[[HostingRules, GroupLimits], None] = lambda _rules, _limits: None
    """Learns what is in force: the limits and the rules of adoption may change from then on."""
    operators: OperatorsConfig = NO_OPERATORS
    fleet: OwnershipDriver | None = None
    """The gateway's place in a fleet that runs on several machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayServices:
    """The groups of a gateway with all that they need, before a client can reach them."""

    cluster: Cluster
    groups: Groups
    rules: HostingRules
    services: Services
    coordinators: Coordinators
    regexes: RegexQuestions
    client_warnings: ClientWarnings


@asynccontextmanager
async def gateway_services(
    config: GatewayConfig, state_log: StateLog, sinks: Sinks
) -> AsyncIterator[GatewayServices]:
    """Connect log, cluster and groups during the block. No group is loaded yet.

    Raises UpstreamError if the cluster cannot be reached at the start.
    """
    # The same kind of clock as the groups': a step of the wall clock must not reorder events.
    clock = Clock()
    member = config.data_path.member
    make_journal = Journal if member is None else partial(FleetJournal, member.shards)
    journal = make_journal(
        state_log.id,
        sinks,
        run=state_log.run_id,
        cluster_id=config.cluster_id,
        now_ms=clock.now_ms,
        recall=state_log.last_events,
    )
    names = config.data_path.names
    cluster = Cluster(
        config.upstream,
        access=config.access,
        emit=journal.emit,
        names=names,
        only_id=config.cluster_id,
    )
    offsets = OffsetReporter(
        journal.emit,
        clock.now_ms,
        names=config.data_path.names,
        sequence_of=journal.sequence_of,
        topic_ids=lambda names: {
            name: shown_topic_id(topic_id) for name, topic_id in cluster.known_ids(names).items()
        },
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.run)
        if config.data_path.to_brokers != config.access:
            await _check_client_access(cluster, config.data_path.to_brokers)
        can_hold = not is_embedded(cluster.versions)
        groups = config.groups
        if can_hold:
            # The anchor, not a timer, tells when a lost commit can no longer be stored.
            groups = replace(groups, lost_commit_hold_ms=None)
        coordinators = Coordinators(cluster, names)
        connections = CoordinatorConnections(cluster)
        client_warnings = ClientWarnings()
        rules = _hosting_rules(config, groups, state_log, can_hold=can_hold)

        def complain(owner: QuotaKey, reason: str, limit: int) -> None:
            client_warnings.warn("groups_refused", owner.name, reason=reason, limit=limit)

        shards = 1 if member is None else member.shards
        limits = GroupLimits(
            config.max_groups,
            config.share_of_groups,
            complain,
            shard_of=partial(shard_of, shards=shards),
        )
        config.take_rules(rules, limits)
        regexes = RegexPermissions(config.data_path.limits)
        resolver = RegexResolver(cluster, regexes.find_describable)
        compute_thread = ComputeThread()
        pauses = Pauses(clock.now_ms(), grace_ms_max=groups.reconnect_timeout_ms)
        pauses.listen(_report_pause)
        services = Services(
            clock=clock,
            cluster=cluster,
            cluster_reader=ClusterGroupReader(cluster),
            state_log=state_log,
            journal=journal,
            offsets=offsets,
            resolver=resolver,
            compute_thread=compute_thread,
            assign=PlugIns(compute_thread, ENVIRONMENT_PREFIX).compute,
            coordinator_of=coordinators.node_of,
            ask_coordinator=connections.ask,
            nursery=nursery,
            pauses=pauses,
            limits=limits,
        )
        hosted_groups = Groups(rules, services)
        if member is not None:
            hosted_groups.drivers.owns = partial(_has_group, member, state_log)
        readiness = ReadinessReporter(
            journal.emit, hosted_groups.views.snapshot, rules.config_of, names
        )
        journal.listen(readiness.take)
        hosted_groups.router.on_watched = readiness.on_watched
        hosted_groups.views.cluster.on_described = readiness.on_watched
        with closing(connections):
            yield GatewayServices(
                cluster=cluster,
                groups=hosted_groups,
                rules=rules,
                services=services,
                coordinators=coordinators,
                regexes=RegexQuestions(regexes, resolver),
                client_warnings=client_warnings,
            )
        nursery.cancel_scope.cancel()


async def run_gateway(
    config: GatewayConfig,
    state_log: StateLog,
    sinks: Sinks,
    *,
    stop: trio.Event,
    task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a gateway until `stop`, then drain it. Cancellation closes everything immediately.

    Reports the bootstrap address. Raises UpstreamError if the cluster cannot be reached at the
    start, ListenError if a port is not available, NoControlSocket.
    """
    with ExitStack() as at_end:
        async with gateway_services(config, state_log, sinks) as backend:
            cluster, hosted_groups, services = backend.cluster, backend.groups, backend.services
            nursery, emit = services.nursery, services.journal.emit
            closes_count = config.groups.static_takeover is StaticTakeover.CONNECTION_CLOSED
            limiter = ConnectionLimiter(
                config.data_path.limits, ConnectedClients() if closes_count else None
            )
            removal = Removal()
            moves = _shard_moves(config, backend)
            fleet = config.fleet
            # A fleet takes the groups over before the data path ends.
            ending = stop if fleet is None else trio.Event()
            operators = Operators(
                config.operators,
                hosted_groups,
                backend.rules,
                cluster=cluster,
                clock=services.clock,
                pauses=services.pauses,
                journal=services.journal,
                counts=services.counts,
                client_warnings=backend.client_warnings,
                limits=config.data_path.limits,
                group_limits=services.limits,
                limiter=limiter,
                removal=removal,
                stop=stop,
                unreported_commits=services.offsets.find_unreported,
                moves=moves,
                elsewhere=_groups_elsewhere(config, cluster),
            )
            held = HeldRequests(config.data_path.limits)
            service = _group_service(config, backend, limiter.connected_clients)
            private_names = PrivateNames(
                config.private_topics,
                config.private_transactional_ids,
                topic_ids=lambda: cluster.known_ids(config.private_topics).values(),
            )
            if isinstance(service, FleetGroupService) and config.operators.fleet_folder is not None:
                folder, limits = config.operators.control_folder, config.data_path.limits
                assert folder is not None, "a process of a fleet has a folder"
                serve_owner_calls = partial(serve_calls, private_names=private_names)
                answer = service.answer_owner_call
                await nursery.start(serve_owner_calls, folder, answer, limits, held)
            await operators.serve_admin(service.answers, nursery)
            await cluster.topics_for(config.private_topics)  # keeps their ids known from now on
            cluster.needed_topics = lambda: {
                *config.private_topics,
                *hosted_groups.views.topic_names(),
            }
            nursery.start_soon(hosted_groups.watch_pauses)
            await nursery.start(hosted_groups.resume)
            if moves is not None:
                nursery.start_soon(moves.run)
            nursery.start_soon(services.offsets.run)
            nursery.start_soon(operators.watch_lag)
            nursery.start_soon(Forgetting(hosted_groups, services.cluster_reader).run)
            async with trio.open_nursery() as serving:
                address: Address = await serving.start(
                    partial(
                        serve,
                        config.data_path,
                        service,
                        cluster,
                        stop=ending,
                        limiter=limiter,
                        held=held,
                        removal=removal,
                        private_names=private_names,
                        emit=emit,
                        client_warnings=backend.client_warnings,
                    )
                )
                await operators.serve_commands(address, serving)
                previous_run = await _record_run(state_log, services.clock.now_ms())
                emit(_describe_start(address, cluster, previous_run))
                at_end.push(partial(_report_end, services.journal))
                if not backend.rules.can_anchor:
                    log.info("anchors_off", reason="the embedded cluster cannot hold anchors")
                task_status.started(address)
                await stop.wait()
                if fleet is not None:
                    await fleet.leave()
                    ending.set()
                hosted_groups.release_waiting()
            await hosted_groups.orders.end_adoptions()
            if not state_log.outlives_process:
                await hosted_groups.leave_all()


def _group_service(
    config: GatewayConfig, backend: GatewayServices, connected_clients: ConnectedClients | None
) -> GroupService:
    """The service that answers about groups. In a fleet it also asks other processes."""
    services = backend.services
    make: Callable[..., GroupService] = GroupService
    member, folder = config.data_path.member, config.operators.fleet_folder
    if isinstance(member, SeatedMember):
        make = partial(
            FleetGroupService, member, MachineCalls(member, folder, config.access_to_gateways)
        )
    elif member is not None and folder is not None:
        make = partial(FleetGroupService, member, OwnerCalls(folder))
    return make(
        backend.groups,
        backend.coordinators,
        topic_names=backend.cluster.names_now,
        regexes=backend.regexes,
        compute_thread=services.compute_thread,
        offsets=services.offsets,
        shows_members=config.shows_members,
        refuses_defective=config.refuses_defective,
        emit=services.journal.emit,
        names=config.data_path.names,
        client_warnings=backend.client_warnings,
        connected_clients=connected_clients,
    )


def _groups_elsewhere(config: GatewayConfig, cluster: Cluster) -> GroupsElsewhere | None:
    """The groups of other machines. The first process of a machine lists them for all."""
    member = config.data_path.member
    if not isinstance(member, SeatedMember) or member.process != 0:
        return None
    return GroupsElsewhere(member, config.access_to_gateways, lambda: cluster.brokers)


def _describe_start(address: Address, cluster: Cluster, previous_run: int | None) -> GatewayStarted:
    return GatewayStarted(
        version=version("groupferry"),
        bootstrap=f"{address[0]}:{address[1]}",
        cluster_id=cluster.cluster_id,
        brokers=tuple(sorted(cluster.brokers)),
        previous_run=previous_run,
    )


async def _record_run(state_log: StateLog, now_ms: int) -> int | None:
    """Store that this run has started, if the log has a place for it. Returns the one before."""
    if isinstance(state_log, ShardedLog) and not state_log.open_shards:
        return None  # other processes still serve the shards of this one
    return await record_run(state_log, now_ms)


def _shard_moves(config: GatewayConfig, backend: GatewayServices) -> ShardMoves | None:
    """What carries out orders about shards, in a process of a fleet."""
    services, member = backend.services, config.data_path.member
    link: OrderSource | None = config.fleet or config.operators.link
    # Of a fleet on several machines, a folder does not learn what happens to a shard elsewhere.
    folder = config.operators.fleet_folder if config.fleet is None else None
    if member is None or link is None:
        return None
    assert isinstance(services.state_log, ShardedLog)
    assert isinstance(services.journal, FleetJournal)
    return ShardMoves(
        member,
        link,
        backend.groups,
        backend.rules,
        state_log=services.state_log,
        journal=services.journal,
        offsets=services.offsets,
        clock=services.clock,
        slots_folder=None if folder is None else folder / SLOTS_FOLDER,
    )


def _report_end(
    journal: Journal,
    _kind: type[BaseException] | None,
    error: BaseException | None,
    _trace: TracebackType | None,
) -> None:
    """Tell of a normal end."""
    if error is None or _was_asked_to_end(error):
        journal.end_hostings()
        journal.emit(GatewayEnded())


def _was_asked_to_end(error: BaseException) -> bool:
    """Whether this is only a cancellation that was wanted. A task that fails, such as that of a
    state log which another gateway takes, cancels its siblings: the source is their nursery. Any
    other source is an end that was wanted, also a deadline, for one within may pass just then."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_was_asked_to_end, error.exceptions))
    return isinstance(error, trio.Cancelled) and error.source != "nursery"


def _hosting_rules(
    config: GatewayConfig,
    groups: GroupConfig,
    state_log: StateLog,
    *,
    can_hold: bool,
) -> HostingRules:
    """What all groups share. `can_hold`: whether the cluster can hold anchors."""
    return HostingRules(
        config=groups,
        gateway=Gateway(log_id=state_log.id, run_id=state_log.run_id),
        longest_session_ms=groups.longest_session_ms,
        # The embedded cluster ends when a group's request reaches it.
        host_patterns=config.host_patterns if can_hold else ("*",),
        forward_patterns=config.forward_patterns,
        adoption=config.adoption,
        shares_log=isinstance(config.data_path.member, SeatedMember),
        hold_patterns=config.hold_patterns,
        can_anchor=can_hold,
        linger_ms=round(config.anchor_linger_s * 1000),
        names=config.data_path.names,
        watched=WatchedGroups(config.data_path.names),
    )


async def _check_client_access(cluster: Cluster, access: Access) -> None:
    """Check that a broker accepts connections of clients, which cannot show the gateway's
    certificate. Raises UpstreamError."""
    address = next(iter(cluster.brokers.values()))
    try:
        (await BrokerConnection.open(*address, access=access)).close()
    except UpstreamRefused:
        raise UpstreamRefused(
            "the cluster wants a certificate of every client, which the gateway cannot relay: use a"
            " listener of the cluster with SASL instead, or one that does not require certificates"
        ) from None


def _report_pause(length_ms: int, grace_ms: int) -> None:
    log.warning("gateway_paused", length_ms=length_ms, grace_ms=grace_ms)


def _has_group(member: FleetMember, state_log: StateLog, group_id: str) -> bool:
    """Whether the group's shard is this process's, and has not been lost since the last table."""
    if isinstance(state_log, ShardedLog):
        is_open = shard_of(group_id, member.shards) in state_log.open_shards
        return is_open and member.owns(group_id)
    return member.owns(group_id)
