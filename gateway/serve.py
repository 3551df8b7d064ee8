"""The process behind `groupferry serve`: settings, signals, the state folder."""

import gc
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import structlog
import trio

from coordinator.interface.config import GroupConfig
from gateway.admin.config import AdminConfig
from gateway.cluster.access import Access
from gateway.cluster.broker_configs import cluster_numbers
from gateway.cluster.broker_connection import Address, BrokerConnection
from gateway.cluster.connection_limits import connection_limits_below
from gateway.cluster.embedded import is_embedded
from gateway.cluster.errors import LOOK_AT_UPSTREAM, UpstreamError
from gateway.cluster.finding import FoundCluster, find_cluster
from gateway.cluster.librdkafka import client_config
from gateway.cluster.own_permissions import may_read_group, missing_permissions, other_writers
from gateway.cluster.secret import Secret
from gateway.control.control_socket import NoControlSocket
from gateway.data_path.broker_names import BrokerNames
from gateway.data_path.config import DataPathConfig
from gateway.data_path.errors import ListenError
from gateway.data_path.listeners import check_ports
from gateway.error_groups import first_of
from gateway.fleet.fleet_state import (
    FILE_NAME,
    IN_CLUSTER,
    SLOTS_FOLDER,
    FleetState,
    end_fleet,
    open_state,
    read_state,
    write_state,
)
from gateway.fleet.member import FleetMember
from gateway.fleet.ownership import Founding
from gateway.fleet.parent import FleetPlan, RunProcess, run_fleet
from gateway.fleet.parent_link import ParentLink
from gateway.fleet.table import GatewayAddress
from gateway.gateway import GatewayConfig, run_gateway
from gateway.journal.events_topic import EventsTopicError, EventsTopicWriter, open_events_topic
from gateway.journal.journal import Sinks
from gateway.journal.line_files import FOLDER_NAME, LineFiles
from gateway.logs import configure, name_process, sum_up_repeats
from gateway.operators import OperatorsConfig
from gateway.ownership_driver import FleetError, NameTaken, OwnershipDriver, join_fleet
from gateway.quotas.shares import ShareRule
from gateway.readable import escape
from gateway.reloading import Reloading, limits_of, share_of_groups
from gateway.security import Security, security_of
from gateway.settings import BROKER_CONFIGS, Settings, file_key
from gateway.state_folder import StateFolderError, bind_to_cluster, lock_folder
from gateway.state_log.kafka.kafka_log import open_kafka_log
from gateway.state_log.kafka.shards import (
    claim_log,
    count_shards,
    find_writers,
    open_partitions,
    writers_of,
)
from gateway.state_log.log import (
    StateLog,
    StateLogError,
    StateLogLost,
    StateLogTaken,
    StateLogUnusable,
)
from gateway.state_log.memory import MemoryLog
from gateway.state_log.sharded import open_sharded_log
from gateway.state_log.splitting import split_state
from gateway.state_log.sqlite import open_sqlite_log
from gateway.transport.reloading import (
    check_certificate,
    reload_certificates,
    watch_certificates,
)

log = structlog.get_logger()

QUIET_START_S = 3.0
"""After this time, the gateway logs what its start is waiting for."""

CHECK_TIMEOUT_S = 10.0
"""The limit for the questions about permissions and limits of connections. The start goes on
without what has not been answered by then."""

MANY_COORDINATOR_NODES = 64
"""librdkafka runs a thread for each node that Metadata lists."""

OBJECTS_PER_COLLECTION = 50_000
"""How many objects the gateway makes between two garbage collections. Requests leave few cycles,
and while a thousand members join, a collection finds hardly anything but what they still need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetProcess:
    """What a process of a fleet knows of itself."""

    number: int
    count: int
    """How many processes the fleet has on this machine."""
    shards: "SharesOfParent | None"
    """None if the group of a fleet on several machines shares out."""
    is_first: bool
    """Whether the fleet starts with it: it checks what is the same for all."""
    link: ParentLink

    @property
    def folder_name(self) -> str:
        """The folder for its socket and its events, below the state folder."""
        return f"{SLOTS_FOLDER}/{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesOfParent:
    """The shards of a process whose parent shares them out."""

    member: FleetMember
    at_start: tuple[int, ...]
    """The shards that it opens at its start."""
    log_id: str
    """The id of the state log of the whole fleet."""
    run_id: int
    """Greater than that of any process before."""


def run(settings: Settings, read_again: Callable[[], Settings]) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit status, 1 if the gateway could not start.
    `read_again` reads the settings at SIGHUP.

    Raises SettingsError if a file that a setting names cannot be used.
    """
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    security = security_of(settings)
    reloading = Reloading(settings, read_again, security=security, limits=limits_of(settings))
    if settings.processes is not None:
        return _run_fleet(settings, settings.processes, security, reloading)
    return _run_process(settings, security, reloading)


def _run_fleet(settings: Settings, slots: int, security: Security, reloading: Reloading) -> int:
    """Run a fleet: this process becomes the parent. Returns the exit status."""
    folder = settings.state_dir
    configure(settings.log_format, settings.log_level)  # nothing here would sum up repeats
    try:
        with lock_folder(folder):
            name = IN_CLUSTER if settings.state == "kafka" else FILE_NAME
            if name == FILE_NAME:
                split_state(folder)
            end_fleet(folder)
            state = open_state(folder, slots, name)
            write_state(folder, state, name)
            plan = _ServePlan(folder, name, state, security, reloading)
            return run_fleet(slots, 0 if settings.fleet else state.shards, plan)
    except (StateFolderError, StateLogUnusable) as reason:
        return _fail(reason)


class _ServePlan(FleetPlan):
    """Prepares the processes of a fleet."""

    def __init__(
        self,
        folder: Path,
        name: str,
        state: FleetState,
        security: Security,
        reloading: Reloading,
    ) -> None:
        """`name`: the file of the state."""
        self._folder, self._name, self._state = folder, name, state
        self._security, self._reloading = security, reloading
        self._is_first = True

    def prepare(self, slot: int, owners: Sequence[int], shards: Sequence[int]) -> RunProcess:
        """See `FleetPlan`."""
        state = self._state
        share: SharesOfParent | None = None
        if owners:
            share = SharesOfParent(
                member=FleetMember(
                    slot=slot, slots=state.slots, shards=state.shards, owners=list(owners)
                ),
                at_start=tuple(shards),
                log_id=state.log_id,
                run_id=self.number_run(),
            )
        is_first, self._is_first = self._is_first, False

        def run_process(link: socket.socket) -> int:
            name_process(slot)
            current = self._reloading.settings
            configure(current.log_format, current.log_level, counts_repeats=True)
            reload_certificates(self._security.certificates)
            process = FleetProcess(
                number=slot,
                count=state.slots,
                shards=share,
                is_first=is_first,
                link=ParentLink(link),
            )
            return _run_process(current, self._security, self._reloading, process)

        return run_process

    def number_run(self) -> int:
        """See `FleetPlan`."""
        state = self._state.with_run()
        write_state(self._folder, state, self._name)
        self._state = state
        return state.runs

    def note_log(self, log_id: str, run_id: int) -> None:
        """See `FleetPlan`."""
        self._state = self._state.model_copy(update={"log_id": log_id, "runs": run_id})

    def note_owners(self, owners: Sequence[int]) -> None:
        """See `FleetPlan`."""
        # They are in force, stored or not: the next run stores them too.
        self._state = self._state.with_owners(owners)
        write_state(self._folder, self._state, self._name)

    def explain_end(self, reason: str) -> None:
        """See `FleetPlan`."""
        _fail(reason)

    def reload(self) -> None:
        """See `FleetPlan`."""
        self._reloading.reload()
        configure(self._reloading.settings.log_format, self._reloading.settings.log_level)


def _run_process(
    settings: Settings,
    security: Security,
    reloading: Reloading,
    process: FleetProcess | None = None,
) -> int:
    """Run this process until it is told to end. Returns the exit status."""
    reason: Exception | None = None
    try:
        trio.run(_run_until_told, settings, security, reloading, process)
    except* (
        UpstreamError,
        ListenError,
        StateFolderError,
        NoControlSocket,
        EventsTopicError,
        StateLogUnusable,
        StateLogError,
        StateLogTaken,
        FleetError,
    ) as failures:
        reason = first_of(failures)
    if reason is None:
        return 0
    if process is not None and isinstance(reason, StateLogTaken | StateLogLost | NameTaken):
        process.link.say_log_lost(str(reason))  # the parent says it once
        return 1
    return _fail(reason)


def _fail(reason: Exception | str) -> int:
    """Say why the gateway ends. Returns the exit status."""
    line = f"{reason}; {LOOK_AT_UPSTREAM}" if isinstance(reason, UpstreamError) else f"{reason}"
    sys.stderr.write(f"groupferry: {escape(line)}\n")
    return 1


async def _run_until_told(
    settings: Settings,
    security: Security,
    reloading: Reloading,
    process: FleetProcess | None,
) -> None:
    stop, started = trio.Event(), trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sum_up_repeats)
        if process is not None:
            nursery.start_soon(process.link.beat)

        async def run_settings(task_status: trio.TaskStatus[Address]) -> None:
            await _run_settings(
                settings, security, reloading, stop, process, task_status=task_status
            )
            nursery.cancel_scope.cancel()

        await nursery.start(
            _obey_signals if process is None else process.link.obey,
            stop,
            started,
            nursery.cancel_scope,
            reloading.reload,
        )
        nursery.start_soon(_log_wait, settings.upstream, started)
        if security.listening is not None:
            check_certificate(security.listening)
        nursery.start_soon(watch_certificates, security.certificates)
        await nursery.start(run_settings)
        started.set()
        if process is not None:
            process.link.say_serving()


async def _log_wait(upstream: tuple[Address, ...], started: trio.Event) -> None:
    """Log that a slow start is waiting for the cluster."""
    with trio.move_on_after(QUIET_START_S):
        await started.wait()
        return
    log.info("cluster_awaited", upstream=",".join(map(str, upstream)))


@asynccontextmanager
async def _open_log(
    settings: Settings,
    access: Access,
    cluster_id: str | None,
    process: FleetProcess | None,
    fleet: OwnershipDriver | None,
) -> AsyncIterator[StateLog]:
    """The state log of this process during the block. Raises as `open_state_log` does."""
    if fleet is not None:
        async with open_partitions(
            settings.upstream,
            settings.state_topic,
            access,
            fleet.member,
            (),
            cluster_id=cluster_id,
            log_id=fleet.table.log_id,
            run_id=fleet.run_id,
            on_taken=fleet.on_taken,
        ) as kafka_log:
            yield kafka_log
    elif process is None or process.shards is None:
        async with open_state_log(settings, access, cluster_id) as state_log:
            yield state_log
    elif settings.state == "kafka":
        async with open_partitions(
            settings.upstream,
            settings.state_topic,
            access,
            process.shards.member,
            process.shards.at_start,
            cluster_id=cluster_id,
            log_id=None if process.is_first else process.shards.log_id,
            run_id=process.shards.run_id,
        ) as kafka_log:
            if process.is_first:
                process.link.say_log_claimed(kafka_log.id, kafka_log.run_id)
            yield kafka_log
    else:
        async with open_sharded_log(
            settings.state_dir,
            process.shards.member,
            process.shards.at_start,
            log_id=process.shards.log_id,
            run_id=process.shards.run_id,
            needs_all=False,
        ) as sharded_log:
            yield sharded_log


@asynccontextmanager
async def open_state_log(
    settings: Settings, access: Access, cluster_id: str | None
) -> AsyncIterator[StateLog]:
    """The state log of a single process during the block. `cluster_id`: that of the cluster, None
    if it has none. Raises StateFolderError, StateLogError, StateLogTaken, StateLogUnusable."""
    match settings.state:
        case "memory":
            yield MemoryLog()
        case "sqlite" if read_state(settings.state_dir) is not None:
            async with _open_all_shards(settings.state_dir) as sharded_log:
                yield sharded_log
        case "sqlite":
            async with open_sqlite_log(settings.state_dir) as sqlite_log:
                yield sqlite_log
        case "kafka":
            topic = (settings.upstream, settings.state_topic, access)
            if shards := await trio.to_thread.run_sync(
                count_shards, *topic, abandon_on_cancel=True
            ):
                member = FleetMember(slot=0, slots=1, shards=shards)
                async with open_partitions(
                    *topic, member, member.own_shards, cluster_id=cluster_id, needs_all=True
                ) as sharded_log:
                    yield sharded_log
            else:
                async with open_kafka_log(*topic, cluster_id=cluster_id) as kafka_log:
                    yield kafka_log


@asynccontextmanager
async def _open_all_shards(folder: Path) -> AsyncIterator[StateLog]:
    """What a fleet has left, as the log of a single gateway. Raises StateFolderError,
    StateLogUnusable."""
    state = open_state(folder, 0).with_run()
    write_state(folder, state)
    member = FleetMember(slot=0, slots=1, shards=state.shards)
    async with open_sharded_log(
        folder, member, log_id=state.log_id, run_id=state.runs
    ) as sharded_log:
        yield sharded_log


async def _check_start(
    settings: Settings, access: Access, data_path: DataPathConfig, *, has_ports: bool
) -> FoundCluster:
    """Find the cluster, and check folder and ports before anything else uses the cluster:
    librdkafka does not say which address hangs, and the current owner of the state topic ends as
    soon as we take it. `has_ports`: whether other processes of the fleet have the ports already.
    Raises UpstreamError, StateFolderError, ListenError."""
    cluster = await find_cluster(settings.upstream, access)
    bind_to_cluster(settings.state_dir, cluster.cluster_id)
    if not has_ports:
        await _check_advertised_name(settings)
        await check_ports(data_path, cluster.brokers)
    return cluster


async def _check_advertised_name(settings: Settings) -> None:
    """Log that clients may not find the gateway under its advertised name. It may be known where
    they run and not here."""
    if settings.advertise is None:
        return
    try:
        with trio.move_on_after(CHECK_TIMEOUT_S):
            await trio.socket.getaddrinfo(settings.advertise, None)
    except OSError as error:
        log.warning("advertise_unresolved", advertise=settings.advertise, reason=str(error))


async def _check_cluster(
    settings: Settings,
    address: Address,
    access: Access,
    own_topics: Collection[str],
    max_connections: int,
) -> None:
    """Log what the cluster does not allow the gateway, how few connections its brokers accept, and
    who else may write the gateway's topics. A broker that does not tell ends no start."""
    with suppress(UpstreamError), trio.move_on_after(CHECK_TIMEOUT_S):
        async with await BrokerConnection.open(*address, access=access) as connection:
            if is_embedded(connection.versions):
                return
            transactional_ids = (
                await find_writers(connection, settings.state_topic, has_shards=settings.has_shards)
                if settings.state == "kafka"
                else ()
            )
            for missing in await missing_permissions(connection, own_topics, transactional_ids):
                log.warning("permission_missing", **asdict(missing))
            for low in await connection_limits_below(max_connections, connection, access):
                log.warning("connection_limit_low", **asdict(low), max_connections=max_connections)
    own = None if access.credentials is None else f"User:{access.credentials.username}"
    with suppress(UpstreamError):
        config = client_config(settings.upstream, "groupferry-start", access)
        for topic, writers in (await other_writers(config, own_topics, own)).items():
            if writers:
                log.warning("own_topic_open", topic=topic, principals=sorted(writers))


async def group_config_at(settings: Settings, address: Address, access: Access) -> GroupConfig:
    """The engine's configuration with the brokers' own configs of groups where none is set. Logs
    where one is set to another value: a group behind the gateway then meets a value other than the
    cluster's."""
    configs: Mapping[str, int] = {}
    with suppress(UpstreamError), trio.move_on_after(CHECK_TIMEOUT_S):
        async with await BrokerConnection.open(*address, access=access) as connection:
            if not is_embedded(connection.versions):
                names = [file_key(name) for name in BROKER_CONFIGS]
                configs = await cluster_numbers(connection, access, names)
    theirs = {name: configs[file_key(name)] for name in BROKER_CONFIGS if file_key(name) in configs}
    for name in sorted(settings.model_fields_set & theirs.keys()):
        if (value := getattr(settings, name)) != theirs[name]:
            log.warning("broker_config_differs", setting=name, value=value, broker=theirs[name])
    try:
        settings = settings.with_broker_configs(theirs)
    except ValueError as error:
        log.warning("broker_configs_not_taken", reason=str(error))
    return replace(settings.group_config(), broker_limits=tuple(configs.items()))


@asynccontextmanager
async def _events_topic(
    settings: Settings, access: Access
) -> AsyncIterator[EventsTopicWriter | None]:
    if settings.events_topic is None:
        yield None
    else:
        async with open_events_topic(settings.upstream, settings.events_topic, access) as topic:
            yield topic


def gateway_config(
    settings: Settings,
    security: Security,
    reloading: Reloading,
    process: FleetProcess | None = None,
) -> GatewayConfig:
    """The gateway that the settings describe, or one process of it."""
    control_folder = settings.state_dir
    member: FleetMember | None = None
    if process is not None:
        control_folder = control_folder / process.folder_name
        member = None if process.shards is None else process.shards.member
    data_path = DataPathConfig(
        listen_host=settings.listen.host,
        listen_port=settings.listen.port,
        advertised_host=settings.advertised_host,
        broker_names=None if settings.listen_sni is None else BrokerNames(settings.listen_sni),
        state_folder=settings.state_dir,
        member=member,
        leaving=None if process is None else process.link.leaving,
        other_ports=() if settings.admin_listen is None else (settings.admin_listen.port,),
        tls=security.listening,
        to_brokers=security.of_clients,
        clients_authenticate=security.clients_authenticate,
        client_side_api_key=settings.client_side_api_key
        if settings.client_side_assignors
        else None,
        limits=reloading.limits,
        names=ShareRule(
            per_address=settings.max_names_per_address,
            per_principal=settings.max_names_per_principal,
        ),
    )
    return GatewayConfig(
        upstream=settings.upstream,
        access=security.own,
        access_to_gateways=security.to_gateways,
        data_path=data_path,
        groups=settings.group_config(),
        max_groups=settings.max_groups,
        share_of_groups=share_of_groups(settings),
        host_patterns=settings.groups_host,
        forward_patterns=settings.groups_forward,
        hold_patterns=settings.groups_hold,
        adoption=settings.groups_adopt,
        shows_members=settings.describe_groups_consumer == "members",
        refuses_defective=settings.refuse_defective_clients,
        anchor_linger_s=settings.anchor_linger_ms / 1000,
        private_topics=_private_topics(settings),
        private_transactional_ids=_private_transactional_ids(settings),
        operators=OperatorsConfig(
            control_folder=control_folder,
            admin=_admin(settings, security),
            fleet_folder=None if process is None else settings.state_dir,
            member=member,
            link=None if process is None else process.link,
            hold_on_regression=settings.hold_on_regression,
            regression_share=settings.regression_share_percent / 100,
        ),
        take_rules=reloading.take_rules,
    )


async def _run_settings(
    settings: Settings,
    security: Security,
    reloading: Reloading,
    stop: trio.Event,
    process: FleetProcess | None = None,
    *,
    task_status: trio.TaskStatus[Address],
) -> None:
    config = gateway_config(settings, security, reloading, process)
    folder = settings.state_dir if process is None else settings.state_dir / process.folder_name
    is_first = process is None or process.is_first
    async with AsyncExitStack() as resources:
        resources.enter_context(lock_folder(folder))
        if process is None:
            end_fleet(folder)
        cluster = await _check_start(
            settings, security.own, config.data_path, has_ports=not is_first
        )
        config = replace(config, upstream=cluster.addresses, cluster_id=cluster.cluster_id)
        own_topics, max_connections = config.private_topics, reloading.limits.max_connections
        address = cluster.addresses[0]
        if process is not None and process.shards is not None and is_first:
            _warn_of_nodes(process.count, cluster)
        if is_first:
            await _check_cluster(settings, address, security.own, own_topics, max_connections)
        if is_first and config.operators.admin is not None and config.operators.admin.is_shared:
            from gateway.admin.server import check_admin_port  # slow to load, not always needed

            await check_admin_port(config.operators.admin)
        groups = await group_config_at(settings, address, security.own)
        config = replace(config, groups=groups)
        topic = await resources.enter_async_context(_events_topic(settings, security.own))
        fleet: OwnershipDriver | None = None
        if settings.fleet_group is not None:
            await _check_fleet_group(settings.fleet_group, address, security.own)
            fleet = await resources.enter_async_context(
                _join_fleet(
                    settings,
                    settings.fleet_group,
                    security.own,
                    cluster,
                    folder=folder,
                    process=process,
                )
            )
            _warn_of_nodes(len(fleet.table.seats), cluster)
            member = fleet.member
            data_path = replace(config.data_path, member=member, announce_ports=fleet.learn_ports)
            operators = replace(config.operators, member=member)
            config = replace(config, data_path=data_path, operators=operators, fleet=fleet)
        state_log = await resources.enter_async_context(
            _open_log(settings, security.own, cluster.cluster_id, process, fleet)
        )
        files = resources.enter_context(closing(LineFiles(folder / FOLDER_NAME)))
        sinks = Sinks(files=files, topic=topic)
        await run_gateway(config, state_log, sinks, stop=stop, task_status=task_status)


def _warn_of_nodes(processes: int, cluster: FoundCluster) -> None:
    """Log that a fleet of so many processes, on all its machines, has many coordinator nodes."""
    nodes = processes * len(cluster.brokers)
    if nodes > MANY_COORDINATOR_NODES:
        log.warning("coordinator_nodes_many", nodes=nodes, processes=processes)


async def _check_fleet_group(group_id: str, address: Address, access: Access) -> None:
    """Raises FleetError if the gateway may not join the group of its fleet. A broker that does not
    tell ends no start."""
    with suppress(UpstreamError), trio.move_on_after(CHECK_TIMEOUT_S):
        async with await BrokerConnection.open(*address, access=access) as connection:
            if not await may_read_group(connection, group_id):
                raise FleetError(
                    f"the gateway's user has no READ on the group {group_id} in the cluster, by"
                    " which its fleet shares the groups: allow it"
                )


@asynccontextmanager
async def _join_fleet(
    settings: Settings,
    group_id: str,
    access: Access,
    cluster: FoundCluster,
    *,
    folder: Path,
    process: FleetProcess | None,
) -> AsyncIterator[OwnershipDriver]:
    """A place in the fleet that shares its groups by this one, during the block. `folder`: the
    process's own. Raises as `join_fleet` does."""

    async def claim() -> Founding:
        log_id, run_id = await claim_log(
            cluster.addresses, settings.state_topic, access, cluster_id=cluster.cluster_id
        )
        return Founding(log_id, run_id)

    name, number, count = settings.name_in_fleet, 0, 1
    if process is not None:
        number, count = process.number, process.count
        name = f"{name}-{number}"
    async with join_fleet(
        cluster.addresses,
        access,
        cluster_id=cluster.cluster_id,
        group_id=group_id,
        name=name,
        address=GatewayAddress(host=settings.advertised_host, port=settings.listen.port),
        claim_log=claim,
        folder=folder,
        process=number,
        processes=count,
        report_owners=(lambda _owners: None) if process is None else process.link.say_owners,
    ) as fleet:
        yield fleet


def _admin(settings: Settings, security: Security) -> AdminConfig | None:
    """How the admin API is reached: at one port, which the processes of a fleet share."""
    if settings.admin_listen is None:
        return None
    path, view_path = settings.admin_token_file, settings.admin_view_token_file
    return AdminConfig(
        listen=(settings.admin_listen.host, settings.admin_listen.port),
        token=None if path is None else Secret(path=path),
        view_token=None if view_path is None else Secret(path=view_path),
        tls=security.admin,
        is_shared=settings.processes is not None,
        metrics_groups_max=settings.metrics_groups_max,
    )


def _private_topics(settings: Settings) -> tuple[str, ...]:
    state_topic = settings.state_topic if settings.state == "kafka" else None
    return tuple(filter(None, (state_topic, settings.events_topic)))


def _private_transactional_ids(settings: Settings) -> tuple[str, ...]:
    """The transactional ids of all shards: a single process may have them too."""
    return writers_of(settings.state_topic) if settings.state == "kafka" else ()


async def _obey_signals(
    stop: trio.Event,
    started: trio.Event,
    everything: trio.CancelScope,
    reload: Callable[[], None],
    task_status: trio.TaskStatus[None],
) -> None:
    """The first signal drains, and a second one ends the drain. Before the start is complete, the
    first one ends the process.

    SIGHUP with a terminal means that the terminal has closed, and acts like SIGTERM. Without one,
    it asks a service to reload its files.
    """
    has_terminal = sys.stderr.isatty()  # at SIGHUP it no longer is one
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
        task_status.started()
        async for number in received:
            if number == signal.SIGHUP and not has_terminal:
                reload()
                continue
            log.info("stop_asked", signal=signal.Signals(number).name)
            if stop.is_set() or not started.is_set():
                everything.cancel()
            stop.set()
