"""The process behind `groupferry serve`: settings, signals, the state folder."""

import gc
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import structlog
import trio

from gateway.cluster.access import Access
from gateway.cluster.broker_connection import Address
from gateway.cluster.errors import LOOK_AT_UPSTREAM, UpstreamError
from gateway.cluster.finding import FoundCluster
from gateway.control.control_socket import NoControlSocket
from gateway.data_path.errors import ListenError
from gateway.error_groups import first_of
from gateway.fleet.fleet_state import (
    FILE_NAME,
    IN_CLUSTER,
    FleetState,
    end_fleet,
    open_state,
    write_state,
)
from gateway.fleet.member import FleetMember
from gateway.fleet.ownership import Founding
from gateway.fleet.parent import FleetPlan, RunProcess, run_fleet
from gateway.fleet.parent_link import ParentLink
from gateway.fleet.process import FleetProcess, SharesOfParent
from gateway.fleet.table import GatewayAddress
from gateway.gateway import run_gateway
from gateway.gateway_config import gateway_config
from gateway.journal.events_topic import EventsTopicError, EventsTopicWriter, open_events_topic
from gateway.journal.journal import Sinks
from gateway.journal.line_files import FOLDER_NAME, LineFiles
from gateway.logs import configure, name_process, sum_up_repeats
from gateway.open_log import open_log_of_process
from gateway.ownership_driver import FleetError, NameTaken, OwnershipDriver, join_fleet
from gateway.readable import escape
from gateway.reloading import Reloading, limits_of
from gateway.security import Security, security_of
from gateway.settings import Settings
from gateway.start_checks import (
    check_cluster,
    check_fleet_group,
    find_usable_cluster,
    group_config_at,
    warn_of_nodes,
)
from gateway.state_folder import StateFolderError, lock_folder
from gateway.state_log.kafka.shards import (
    claim_log,
)
from gateway.state_log.log import (
    StateLogError,
    StateLogLost,
    StateLogTaken,
    StateLogUnusable,
)
from gateway.state_log.splitting import split_state
from gateway.transport.reloading import (
    check_certificate,
    reload_certificates,
    watch_certificates,
)

log = structlog.get_logger()

QUIET_START_S = 3.0
"""After this time, the gateway logs what its start is waiting for."""

OBJECTS_PER_COLLECTION = 50_000
"""How many objects the gateway makes between two garbage collections. Requests leave few cycles,
and while a thousand members join, almost everything that a collection visits is still needed."""


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

    def record_log(self, log_id: str, run_id: int) -> None:
        """See `FleetPlan`."""
        self._state = self._state.model_copy(update={"log_id": log_id, "runs": run_id})

    def record_owners(self, owners: Sequence[int]) -> None:
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
        process.link.say_log_lost(_say(reason))  # the parent says it once
        return 1
    return _fail(reason)


def _fail(reason: Exception | str) -> int:
    """Say why the gateway ends. Returns the exit status."""
    sys.stderr.write(f"groupferry: {escape(_say(reason))}\n")
    return 1


def _say(reason: Exception | str) -> str:
    """Why the gateway ends, and what to do."""
    match reason:
        case UpstreamError():
            return f"{reason}; {LOOK_AT_UPSTREAM}"
        case StateLogTaken():
            return f"{reason}: this gateway exits; stop one of the two"
        case _:
            return f"{reason}"


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
async def _events_topic(
    settings: Settings, access: Access
) -> AsyncIterator[EventsTopicWriter | None]:
    if settings.events_topic is None:
        yield None
    else:
        async with open_events_topic(settings.upstream, settings.events_topic, access) as topic:
            yield topic


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
        cluster = await find_usable_cluster(
            settings, security.own, config.data_path, has_ports=not is_first
        )
        config = replace(config, upstream=cluster.addresses, cluster_id=cluster.cluster_id)
        own_topics, max_connections = config.private_topics, reloading.limits.max_connections
        address = cluster.addresses[0]
        if process is not None and process.shards is not None and is_first:
            warn_of_nodes(process.count, cluster)
        if is_first:
            await check_cluster(settings, address, security.own, own_topics, max_connections)
        if is_first and config.operators.admin is not None and config.operators.admin.is_shared:
            from gateway.admin.server import check_admin_port  # slow to load, not always needed

            await check_admin_port(config.operators.admin)
        groups = await group_config_at(settings, address, security.own)
        config = replace(config, groups=groups)
        topic = await resources.enter_async_context(_events_topic(settings, security.own))
        fleet: OwnershipDriver | None = None
        if settings.fleet_group is not None:
            await check_fleet_group(settings.fleet_group, address, security.own)
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
            warn_of_nodes(len(fleet.table.seats), cluster)
            member = fleet.member
            data_path = replace(config.data_path, member=member, announce_ports=fleet.learn_ports)
            operators = replace(config.operators, member=member)
            config = replace(config, data_path=data_path, operators=operators, fleet=fleet)
        state_log = await resources.enter_async_context(
            open_log_of_process(settings, security.own, cluster.cluster_id, process, fleet)
        )
        files = resources.enter_context(closing(LineFiles(folder / FOLDER_NAME)))
        sinks = Sinks(files=files, topic=topic)
        await run_gateway(config, state_log, sinks, stop=stop, task_status=task_status)


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
