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
from gateway.data_path.complaints import Complaints
from gateway.data_path.config import DataPathConfig
from gateway.data_path.places import ConnectionLimiter
from gateway.data_path.presence import Presence
from gateway.data_path.private_names import PrivateNames
from gateway.data_path.removal import Removal
from gateway.data_path.server import serve
from gateway.events.gateway_events import GatewayEnded, GatewayStarted
from gateway.events.topic_ids import shown_topic_id
from gateway.groups.aside import Aside
from gateway.groups.clock import Clock
from gateway.groups.cluster_look import ClusterLook
from gateway.groups.forgetting import Forgetting
from gateway.groups.group_driver import Services
from gateway.groups.group_limits import GroupLimits
from gateway.groups.groups import Groups
from gateway.groups.pauses import Pauses
from gateway.groups.readiness_reporter import ReadinessReporter
from gateway.groups.regex_permissions import RegexPermissions
from gateway.groups.regex_resolver import RegexResolver
from gateway.hosting.forwarded import WatchedGroups
from gateway.hosting.identity import Gateway
from gateway.hosting.rules import HostingRules
from gateway.hosting.standing import StandingRules
from gateway.hosting.states import Adoption
from gateway.journal.journal import Journal, Sinks
from gateway.journal.runs import record_run
from gateway.observers.offset_reporter import OffsetReporter
from gateway.operators import NO_OPERATORS, Operators, OperatorsConfig
from gateway.plug_ins.runner import PlugIns
from gateway.quotas.owner import Owner
from gateway.quotas.shares import ShareRule
from gateway.requests.coordinators import Coordinators
from gateway.requests.fleet_group_service import FleetGroupService
from gateway.requests.group_service import GroupService
from gateway.requests.regex_questions import RegexQuestions
from gateway.settings_sources import ENVIRONMENT_PREFIX
from gateway.state_log.log import StateLog

log = structlog.get_logger()

ANCHOR_LINGER_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """The configuration of a gateway."""

    upstream: tuple[Address, ...]
    access: Access = PLAIN_ACCESS
    """The gateway's own access to the cluster."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Backstage:
    """The groups of a gateway with all that they need, before a client can reach them."""

    cluster: Cluster
    groups: Groups
    rules: HostingRules
    services: Services
    coordinators: Coordinators
    regexes: RegexQuestions
    complaints: Complaints


@asynccontextmanager
async def backstage(
    config: GatewayConfig, state_log: StateLog, sinks: Sinks
) -> AsyncIterator[Backstage]:
    """Connect log, cluster and groups during the block. No group is loaded yet.

    Raises UpstreamError if the cluster cannot be reached at the start.
    """
    # The same kind of clock as the groups': a step of the wall clock must not reorder events.
    clock = Clock()
    journal = Journal(
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
        tell=journal.tell,
        names=names,
        only_id=config.cluster_id,
    )
    offsets = OffsetReporter(
        journal.tell,
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
        complaints = Complaints()
        rules = _hosting_rules(config, groups, state_log, can_hold=can_hold)

        def complain(owner: Owner, why: str, limit: int) -> None:
            complaints.tell("groups_refused", owner.name, reason=why, limit=limit)

        limits = GroupLimits(config.max_groups, config.share_of_groups, complain)
        config.take_rules(rules, limits)
        regexes = RegexPermissions(config.data_path.limits)
        resolver = RegexResolver(cluster, regexes.find_describable)
        aside = Aside()
        services = Services(
            clock=clock,
            cluster=cluster,
            look=ClusterLook(cluster),
            state_log=state_log,
            journal=journal,
            offsets=offsets,
            resolver=resolver,
            aside=aside,
            assign=PlugIns(aside, ENVIRONMENT_PREFIX).compute,
            coordinator_of=coordinators.node_of,
            ask_coordinator=connections.ask,
            nursery=nursery,
            pauses=Pauses(
                clock.now_ms(), grace_ms_max=groups.reconnect_timeout_ms, on_pause=_tell_pause
            ),
            limits=limits,
        )
        hosted_groups = Groups(rules, services)
        readiness = ReadinessReporter(
            journal.tell, hosted_groups.views.glance, rules.config_of, names
        )
        journal.listen(readiness.take)
        hosted_groups.router.on_watched = readiness.on_watched
        with closing(connections):
            yield Backstage(
                cluster=cluster,
                groups=hosted_groups,
                rules=rules,
                services=services,
                coordinators=coordinators,
                regexes=RegexQuestions(regexes, resolver),
                complaints=complaints,
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
    """Run a gateway until `stop`, then drain it. Cancellation closes everything at once.

    Reports the bootstrap address. Raises UpstreamError if the cluster cannot be reached at the
    start, ListenError if a port is not available, NoControlSocket.
    """
    with ExitStack() as at_end:
        async with backstage(config, state_log, sinks) as behind:
            cluster, hosted_groups, services = behind.cluster, behind.groups, behind.services
            nursery, tell = services.nursery, services.journal.tell
            closes_count = config.groups.static_takeover is StaticTakeover.CONNECTION_CLOSED
            places = ConnectionLimiter(
                config.data_path.limits, Presence() if closes_count else None
            )
            removal = Removal()
            operators = Operators(
                config.operators,
                hosted_groups,
                behind.rules,
                cluster=cluster,
                clock=services.clock,
                journal=services.journal,
                counts=services.counts,
                complaints=behind.complaints,
                limits=config.data_path.limits,
                group_limits=services.limits,
                places=places,
                removal=removal,
                stop=stop,
            )
            member = config.data_path.member
            make = GroupService if member is None else partial(FleetGroupService, member)
            service = make(
                hosted_groups,
                behind.coordinators,
                topic_names=cluster.names_now,
                regexes=behind.regexes,
                aside=services.aside,
                offsets=services.offsets,
                shows_members=config.shows_members,
                refuses_defective=config.refuses_defective,
                tell=tell,
                names=config.data_path.names,
                complaints=behind.complaints,
                presence=places.presence,
            )
            await operators.serve_admin(service.answers, nursery)
            await cluster.topics_for(config.private_topics)  # keeps their ids known from now on
            cluster.needed_topics = lambda: {
                *config.private_topics,
                *hosted_groups.views.topic_names(),
            }
            private_names = PrivateNames(
                config.private_topics,
                config.private_transactional_ids,
                topic_ids=lambda: cluster.known_ids(config.private_topics).values(),
            )
            nursery.start_soon(hosted_groups.watch_pauses)
            await nursery.start(hosted_groups.resume)
            nursery.start_soon(services.offsets.run)
            nursery.start_soon(operators.watch_lag)
            nursery.start_soon(Forgetting(hosted_groups, services.look).run)
            async with trio.open_nursery() as serving:
                address: Address = await serving.start(
                    partial(
                        serve,
                        config.data_path,
                        service,
                        cluster,
                        stop=stop,
                        places=places,
                        removal=removal,
                        private_names=private_names,
                        tell=tell,
                        complaints=behind.complaints,
                    )
                )
                await operators.serve_commands(address, serving)
                tell(
                    GatewayStarted(
                        version=version("groupferry"),
                        bootstrap=f"{address[0]}:{address[1]}",
                        cluster_id=cluster.cluster_id,
                        brokers=tuple(sorted(cluster.brokers)),
                        previous_run=await record_run(state_log, services.clock.now_ms()),
                    )
                )
                at_end.push(partial(_tell_end, services.journal))
                if not behind.rules.can_anchor:
                    log.info("anchors_off", reason="the embedded cluster cannot hold anchors")
                task_status.started(address)
                await stop.wait()
                hosted_groups.release_waiting()
            await hosted_groups.orders.end_adoptions()
            if not state_log.outlives_process:
                await hosted_groups.leave_all()


def _tell_end(
    journal: Journal,
    _kind: type[BaseException] | None,
    error: BaseException | None,
    _trace: TracebackType | None,
) -> None:
    """Tell of a normal end."""
    if error is None or _was_asked_to_end(error):
        journal.end_hostings()
        journal.tell(GatewayEnded())


def _was_asked_to_end(error: BaseException) -> bool:
    """Whether this is only a cancellation that somebody wanted. A task that fails, such as the one
    whose state log another gateway takes, cancels those beside it."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_was_asked_to_end, error.exceptions))
    return isinstance(error, trio.Cancelled) and error.source == "explicit"


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
        standing=StandingRules(
            gateway=Gateway(log_id=state_log.id, run_id=state_log.run_id),
            longest_session_ms=groups.longest_session_ms,
            # The embedded cluster ends when a group's request reaches it.
            host_patterns=config.host_patterns if can_hold else ("*",),
            forward_patterns=config.forward_patterns,
            adoption=config.adoption,
        ),
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


def _tell_pause(length_ms: int, grace_ms: int) -> None:
    log.warning("gateway_paused", length_ms=length_ms, grace_ms=grace_ms)
