"""Puts the gateway together: cluster, groups, data path; and ends them in the right order.

Owns who knows whom. Must not know how any of them works.
"""

import os
import resource
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import structlog
import trio

from coordinator.config import GroupConfig
from gateway.anchor.anchors import Anchors
from gateway.anchor.coordinator_connections import CoordinatorConnections
from gateway.anchor.identity import Gateway
from gateway.cluster.broker_connection import Address
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError
from gateway.data_path.config import DataPathConfig, Limits
from gateway.data_path.errors import ListenError
from gateway.data_path.listeners import check_ports
from gateway.data_path.private_names import PrivateNames
from gateway.data_path.server import serve
from gateway.error_groups import first_of
from gateway.events.event import Listener
from gateway.events.events_topic import EventsTopic, EventsTopicError, open_events_topic
from gateway.events.gateway_events import GatewayEnded, GatewayStarted
from gateway.events.journal import Journal
from gateway.events.line_files import FOLDER_NAME, LineFiles
from gateway.groups.anchored_groups import AnchoredGroups
from gateway.groups.clock import Clock
from gateway.groups.coordinators import Coordinators
from gateway.groups.embedded_upstream import is_embedded
from gateway.groups.forgetting import Forgetting
from gateway.groups.group_service import GroupService
from gateway.groups.hosting import Hosting
from gateway.groups.offset_reporter import OffsetReporter
from gateway.groups.registry import Registry
from gateway.readable import escaped
from gateway.settings import Settings, addresses
from gateway.state_folder import StateFolderError, locked
from gateway.state_log.kafka.kafka_log import open_kafka_log
from gateway.state_log.kafka.transactions import transactional_id
from gateway.state_log.log import StateLog, StateLogError, StateLogTaken, StateLogUnusable
from gateway.state_log.memory import MemoryLog
from gateway.state_log.sqlite import open_sqlite_log

log = structlog.get_logger()

DEMO_MAX_GROUPS = 16
ANCHOR_LINGER_S = 60.0
ANCHORS_PER_GROUP = 2
"""Anchors stay for a while after the last member."""
QUIET_START_S = 3.0
"""A start that takes longer says what it waits for."""
FILES_PER_CONNECTION = 2
"""A client's socket and its broker's."""
FILES_BESIDES = 256
"""Listeners, pipes, our own connections to the cluster, and what Python has open."""


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; the exit status, 1 if the gateway could not start."""
    reason: Exception | None = None
    settings = _within_open_files(settings)
    try:
        trio.run(_run_until_signal, settings)
    except* (
        UpstreamError,
        ListenError,
        StateFolderError,
        EventsTopicError,
        StateLogUnusable,
        StateLogError,
        StateLogTaken,
    ) as failures:
        reason = first_of(failures)
    if reason is not None:
        sys.stderr.write(f"groupferry: {escaped(str(reason))}\n")
        return 1
    return 0


def _within_open_files(settings: Settings) -> Settings:
    """Raise our limit of open files, for the usual 1024 turns clients away long before ours does;
    as far as that cannot be, allow fewer connections."""
    allowed = _allow_open_files(settings.max_connections * FILES_PER_CONNECTION + FILES_BESIDES)
    besides = min(FILES_BESIDES, allowed // 2)
    fitting = max(1, (allowed - besides) // FILES_PER_CONNECTION)
    if fitting >= settings.max_connections:
        return settings
    log.warning("open_files_limited", limit=allowed, max_connections=fitting)
    return settings.model_copy(update={"max_connections": fitting})


def _allow_open_files(wanted: int) -> int:
    """How many files may be open from now on: as many as wanted, or as many as we can have."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY or allowed >= wanted:
        return wanted
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return wanted


async def _run_until_signal(settings: Settings) -> None:
    stop, started = trio.Event(), trio.Event()
    async with trio.open_nursery() as nursery:

        async def run_settings(task_status: trio.TaskStatus[Address]) -> None:
            await _run_settings(settings, stop, task_status)
            nursery.cancel_scope.cancel()

        await nursery.start(_obey_signals, stop, started, nursery.cancel_scope)
        nursery.start_soon(_tell_of_waiting, settings.upstream, started)
        await nursery.start(run_settings)
        started.set()


async def _tell_of_waiting(upstream: tuple[Address, ...], started: trio.Event) -> None:
    """A start that takes long waits for the cluster."""
    with trio.move_on_after(QUIET_START_S):
        await started.wait()
        return
    log.info("cluster_awaited", upstream=",".join(map(str, upstream)))


@asynccontextmanager
async def _state_log(settings: Settings, data_path: DataPathConfig) -> AsyncIterator[StateLog]:
    match settings.state:
        case "memory":
            yield MemoryLog()
        case "sqlite":
            async with open_sqlite_log(settings.state_dir) as sqlite_log:
                yield sqlite_log
        case "kafka":
            # Whoever has the log makes room for us and ends: only for one who can serve.
            await _check_ports(settings.upstream, data_path)
            async with open_kafka_log(settings.upstream, settings.state_topic) as kafka_log:
                yield kafka_log


async def _check_ports(upstream: tuple[Address, ...], data_path: DataPathConfig) -> None:
    """Raises UpstreamError, ListenError."""
    cluster = Cluster(upstream)
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.run)
        await check_ports(data_path, cluster.brokers)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _events_topic(settings: Settings) -> AsyncIterator[EventsTopic | None]:
    if settings.events_topic is None:
        yield None
    else:
        async with open_events_topic(settings.upstream, settings.events_topic) as topic:
            yield topic


async def _run_settings(
    settings: Settings, stop: trio.Event, task_status: trio.TaskStatus[Address]
) -> None:
    data_path = DataPathConfig(
        listen_host=settings.listen.host,
        listen_port=settings.listen.port,
        advertised_host=settings.advertised_host,
        state_folder=settings.state_dir,
        limits=Limits(
            max_connections=settings.max_connections,
            max_connections_per_address=settings.max_connections_per_address
            or max(1, settings.max_connections // 2),
            broker_timeout_s=settings.broker_timeout_ms / 1000,
            drain_timeout_s=settings.drain_timeout_ms / 1000,
        ),
    )
    async with AsyncExitStack() as kept:
        kept.enter_context(locked(settings.state_dir))
        topic = await kept.enter_async_context(_events_topic(settings))
        await run_gateway(
            upstream=settings.upstream,
            data_path=data_path,
            groups=settings.group_config(),
            forward_patterns=settings.groups_forward,
            max_groups=settings.max_groups,
            shows_members=settings.describe_groups_consumer == "members",
            anchor_linger_s=settings.anchor_linger_ms / 1000,
            state_log=await kept.enter_async_context(_state_log(settings, data_path)),
            files=kept.enter_context(closing(LineFiles(settings.state_dir / FOLDER_NAME))),
            topic=topic,
            private_topics=_private_topics(settings),
            private_transactional_ids=_private_transactional_ids(settings),
            stop=stop,
            task_status=task_status,
        )


def _lose_terminal() -> bool:
    """Whether the log went to a terminal, which now takes no more lines."""
    if not sys.stderr.isatty():
        return False
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stderr.fileno())
    os.close(nowhere)
    return True


def _private_topics(settings: Settings) -> tuple[str, ...]:
    state_topic = settings.state_topic if settings.state == "kafka" else None
    return tuple(filter(None, (state_topic, settings.events_topic)))


def _private_transactional_ids(settings: Settings) -> tuple[str, ...]:
    return (transactional_id(settings.state_topic),) if settings.state == "kafka" else ()


async def _obey_signals(
    stop: trio.Event,
    started: trio.Event,
    everything: trio.CancelScope,
    task_status: trio.TaskStatus[None],
) -> None:
    """The first signal drains, a second one ends the drain; before the start there is none.

    SIGHUP means that the terminal is gone, which ends a gateway as SIGTERM does; where there is
    none, it asks a service to read its files again, and there is nothing to read again.
    """
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
        task_status.started()
        async for number in received:
            if number == signal.SIGHUP and not _lose_terminal():
                log.info("reload_ignored", reason="settings are read at the start only")
                continue
            log.info("stop_asked", signal=signal.Signals(number).name)
            if stop.is_set() or not started.is_set():
                everything.cancel()
            stop.set()


async def run_demo_gateway(
    upstream: str,
    group_config: GroupConfig,
    listener: Listener,
    *,
    state_dir: Path | None = None,
    task_status: trio.TaskStatus[str],
) -> None:
    """The demo's gateway: on ports that the system chooses, until cancelled. What `serve` keeps in
    its state folder is kept in `state_dir`, or nowhere.

    Raises what `run_gateway` does, StateFolderError, and StateLogUnusable.
    """
    async with AsyncExitStack() as kept, trio.open_nursery() as nursery:
        state_log: StateLog | None = None
        files: LineFiles | None = None
        if state_dir is not None:
            kept.enter_context(locked(state_dir))
            state_log = await kept.enter_async_context(open_sqlite_log(state_dir))
            files = kept.enter_context(closing(LineFiles(state_dir / FOLDER_NAME)))
        host, port = await nursery.start(
            partial(
                run_gateway,
                upstream=addresses(upstream),
                data_path=DataPathConfig(listen_port=0, advertised_host="127.0.0.1"),
                groups=group_config,
                forward_patterns=(),
                max_groups=DEMO_MAX_GROUPS,
                stop=trio.Event(),
                state_log=state_log,
                files=files,
                listener=listener,
            )
        )
        task_status.started(f"{host}:{port}")


async def run_gateway(
    *,
    upstream: tuple[Address, ...],
    data_path: DataPathConfig,
    groups: GroupConfig,
    forward_patterns: tuple[str, ...],
    max_groups: int,
    stop: trio.Event,
    shows_members: bool = True,
    anchor_linger_s: float = ANCHOR_LINGER_S,
    state_log: StateLog | None = None,
    files: LineFiles | None = None,
    topic: EventsTopic | None = None,
    private_topics: tuple[str, ...] = (),
    private_transactional_ids: tuple[str, ...] = (),
    listener: Listener | None = None,
    task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a gateway until `stop`, then drain it. `shows_members`: see `GroupService`. Unless it is
    given a state log, that is in memory. Without `files` and `topic` events go to the log only. No
    client may touch what is private.

    Reports the bootstrap address. Raises UpstreamError if the cluster cannot be reached at the
    start, ListenError if a port cannot be had.
    Cancelled, it closes everything at once.
    """
    state_log = state_log or MemoryLog()
    # The groups' kind of clock: a step of the wall clock must not put events out of order.
    clock = Clock()
    journal = Journal(
        state_log.id, files=files, topic=topic, listener=listener, now_ms=clock.now_ms
    )
    offsets = OffsetReporter(journal.tell, clock.now_ms)
    cluster = Cluster(upstream, tell=journal.tell)
    with ExitStack() as at_end:
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            can_hold = not is_embedded(cluster.versions)
            if can_hold:
                # Not time but the anchor tells when a commit can no longer be stored.
                groups = replace(groups, lost_commit_hold_ms=None)
            gateway = Gateway(log_id=state_log.id)
            hosting = Hosting(
                cluster,
                forward_patterns,
                gateway,
                longest_session_ms=groups.longest_session_ms,
                tell=journal.tell,
            )
            registry = Registry(
                config=groups,
                cluster=cluster,
                hosting=hosting,
                state_log=state_log,
                max_groups=max_groups,
                nursery=nursery,
                journal=journal,
                offsets=offsets,
            )
            coordinators = Coordinators(cluster)
            connections = CoordinatorConnections(cluster)
            anchors = Anchors(
                gateway=gateway,
                connections=connections,
                coordinator_of=coordinators.node_of,
                groups=AnchoredGroups(registry, hosting, journal.tell),
                linger_s=anchor_linger_s,
                anchors_max=ANCHORS_PER_GROUP * max_groups,
                nursery=nursery,
                is_on=can_hold,
            )
            service = GroupService(
                registry,
                hosting,
                coordinators,
                anchors,
                offsets=offsets,
                shows_members=shows_members,
                tell=journal.tell,
            )
            await cluster.topics_for(private_topics)  # from now on their ids are known
            private_names = PrivateNames(
                private_topics,
                private_transactional_ids,
                topic_ids=lambda: cluster.known_ids(private_topics),
            )
            nursery.start_soon(registry.pauses.run)
            await registry.resume()
            nursery.start_soon(offsets.run)
            nursery.start_soon(Forgetting(registry, hosting, anchors.is_here).run)
            async with trio.open_nursery() as serving:
                address: Address = await serving.start(
                    partial(
                        serve,
                        data_path,
                        service,
                        cluster,
                        stop=stop,
                        private_names=private_names,
                        tell=journal.tell,
                    )
                )
                journal.tell(
                    GatewayStarted(
                        version=version("groupferry"),
                        bootstrap=f"{address[0]}:{address[1]}",
                        cluster_id=cluster.cluster_id,
                        brokers=tuple(sorted(cluster.brokers)),
                    )
                )
                at_end.callback(journal.tell, GatewayEnded())
                if not can_hold:
                    log.info("anchors_off", reason="the embedded cluster cannot hold any")
                task_status.started(address)
                await stop.wait()
                registry.release_waiting()
                anchors.release_waiting()
            if not state_log.outlives_process:
                await anchors.leave_all()
            connections.close()
            nursery.cancel_scope.cancel()
