"""One run of the demo, from its cluster to the verdict.

Defines the order in which everything starts and ends. Whatever ends the run (its completion, a
failed step, a dead child, a signal) cancels one nursery, which kills and reaps every child process.
The caller supplies the gateway and the cluster as functions.
"""

import contextlib
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import structlog
import trio
from confluent_kafka import Consumer, KafkaException, TopicPartition

from coordinator.interface.config import GroupConfig
from gateway.cluster.access import Access
from gateway.cluster.errors import UpstreamError
from gateway.cluster.librdkafka import security_config
from gateway.data_path.errors import ListenError
from gateway.demo import reports
from gateway.demo.child import Child, run_child
from gateway.demo.errors import DemoError
from gateway.demo.fleet import Fleet
from gateway.demo.group_description import GroupDescription
from gateway.demo.ledger import Ledger
from gateway.demo.outcome import (
    DemoOutcome,
    DemoTotals,
    Options,
    conversions,
    find_failure,
    totals,
)
from gateway.demo.roll import Roll, RollStep
from gateway.demo.story import Story
from gateway.demo.tcp_forwarder import TcpForwarder
from gateway.demo.upstream import DemoCluster, OpenUpstream
from gateway.error_groups import first_of
from gateway.events.event import Envelope, Listener
from gateway.events.group_events import Direction, GroupConverted
from gateway.settings import Settings
from gateway.state_folder import StateFolderError
from gateway.state_log.log import StateLogError, StateLogUnusable

_FLUSH_LIMIT_S = 15.0
_DRAIN_LIMIT_S = 30.0
_DRAIN_POLL_S = 0.1
_UPSTREAM_LIMIT_S = 10.0

log = structlog.get_logger()

GROUP_CONFIG = replace(
    # What `serve` does by default, only faster, because people watch the demo.
    Settings.model_construct().group_config(),
    classic_initial_rebalance_delay_ms=1_000,
    consumer_heartbeat_interval_ms=1_000,
    consumer_session_timeout_ms=10_000,
)


class RunGateway(Protocol):
    """Runs the demo's gateway until cancelled, on ports that the system chooses."""

    async def __call__(
        self,
        upstream: str,
        group_config: GroupConfig,
        listener: Listener,
        *,
        task_status: trio.TaskStatus[str],
    ) -> None:
        """Reports the gateway's bootstrap address when started. `listener` gets every event."""


class Interrupted(Exception):
    """A signal ended the run."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.exit_status = 128 + number


async def run(
    options: Options,
    run_gateway: RunGateway,
    open_upstream: OpenUpstream,
    state_dir: Path | None = None,
) -> DemoOutcome:
    """Run the demo once. No process is left when this returns or raises. With the state folder of
    the gateway, tell the whole story.

    Raises Interrupted on SIGINT or SIGTERM. A failed run is a DemoOutcome with the reason.
    """
    demo = Demo(options, run_gateway, state_dir)
    failure: str | None = None
    interruption: Interrupted | None = None
    try:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_obey, signals)
                async with open_upstream(options.partitions) as upstream:
                    await demo.run(upstream)
                nursery.cancel_scope.cancel()
    except* Interrupted as group:
        interruption = first_of(group)
    except* DemoError as group:
        failure = str(first_of(group))
    if interruption is not None:
        raise interruption
    return demo.outcome(failure)


class Demo:
    """The parts of a run in progress."""

    def __init__(
        self, options: Options, run_gateway: RunGateway, state_dir: Path | None = None
    ) -> None:
        self._options = options
        self._state_dir = state_dir
        self._run_gateway = run_gateway
        self._ledger = Ledger(options.partitions)
        self._produced: reports.ProducedReport | None = None
        self._converted_live: set[Direction] = set()
        self._steps: list[RollStep] = []
        self._totals: DemoTotals | None = None

    async def run(self, upstream: DemoCluster) -> None:
        """Run everything. Raises DemoError at the first failure."""
        # The gateway relays the authentication, and its own listeners are without TLS.
        access = Access(credentials=upstream.access.credentials)
        async with trio.open_nursery() as nursery:
            bootstrap: str = await nursery.start(self._serve, upstream.bootstrap)
            description = GroupDescription(bootstrap, upstream.group, access)
            with contextlib.closing(description), _security_of_clients(access) as security:
                arguments = [f"--topic={upstream.topic}", *security]
                start = bootstrap if self._state_dir is None else upstream.bootstrap
                producer = await nursery.start(self._produce, arguments, start)
                fleet = self._fleet(arguments, upstream.group, start)
                nursery.start_soon(fleet.run)
                roll = Roll(fleet, self._ledger, description.fetch)
                self._steps = roll.steps
                if self._state_dir is None:
                    await roll.run()
                else:
                    forwarder = TcpForwarder(bootstrap)
                    front_address = await nursery.start(forwarder.run)
                    story = Story(
                        roll,
                        fleet,
                        group=upstream.group,
                        state_dir=self._state_dir,
                        cluster=upstream.bootstrap,
                        gateway=bootstrap,
                        forwarder=forwarder,
                        front_address=front_address,
                        stop_watching=description.close,
                    )
                    await story.run()
                produced = await self._drain(producer)
                await fleet.close()
            committed = await trio.to_thread.run_sync(
                _committed_offsets, upstream, self._options.partitions, abandon_on_cancel=True
            )
            self._totals = totals(self._ledger, produced, committed, fleet.unexpected_ends)
            nursery.cancel_scope.cancel()

    def outcome(self, failure: str | None) -> DemoOutcome:
        """The outcome of the run."""
        steps = tuple(self._steps)
        seen = conversions(steps, self._converted_live)
        if failure is None and self._totals is not None:
            failure = find_failure(self._options, seen, self._totals)
        return DemoOutcome(
            options=self._options,
            steps=steps,
            conversions=seen,
            totals=self._totals,
            reason=failure,
        )

    def _fleet(self, arguments: Sequence[str], group: str, bootstrap: str) -> Fleet:
        options = self._options
        names = [f"consumer-{number}" for number in range(1, options.consumers + 1)]
        consumer_arguments = [
            *arguments,
            f"--group={group}",
            f"--assignor={options.assignor}",
            *(["--static"] if options.static else []),
        ]
        return Fleet(names, consumer_arguments, self._ledger, bootstrap)

    async def _serve(
        self, upstream: str, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run the gateway. Raises DemoError if it cannot start."""
        try:
            await self._run_gateway(
                upstream, GROUP_CONFIG, self._hear_gateway, task_status=task_status
            )
        except* (
            UpstreamError,
            ListenError,
            StateFolderError,
            StateLogUnusable,
            StateLogError,
        ) as failures:
            raise DemoError(f"the gateway did not start: {first_of(failures)}") from None

    async def _produce(
        self,
        arguments: Sequence[str],
        bootstrap: str,
        task_status: trio.TaskStatus[Child] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run the producer. Raises DemoError if it ends unasked."""
        child = await run_child(
            "gateway.demo.producer",
            [
                *arguments,
                f"--bootstrap={bootstrap}",
                f"--partitions={self._options.partitions}",
                f"--rate={self._options.rate}",
            ],
            name="producer",
            on_line=self._hear_producer,
            task_status=task_status,
        )
        if not child.asked_to_end:
            raise DemoError(f"the producer died ({child.describe_exit()})")

    def _hear_gateway(self, envelope: Envelope) -> None:
        if isinstance(envelope.fields, GroupConverted) and envelope.fields.is_live:
            self._converted_live.add(envelope.fields.direction)

    def _hear_producer(self, line: str) -> None:
        report = reports.decode(line)
        if isinstance(report, reports.ProducedReport):
            self._produced = report
        elif isinstance(report, reports.TroubledReport):
            log.debug("producer_troubled", reason=report.error)

    async def _drain(self, producer: Child) -> reports.ProducedReport:
        """Stop the producer, and give the consumers time to read to the end."""
        await producer.finish(_FLUSH_LIMIT_S)
        produced = self._produced
        if produced is None or not produced.final:
            raise DemoError(
                f"the producer ended without its final count ({producer.describe_exit()})"
            )
        log.info("producer_ended", records=produced.acknowledged)
        deadline_s = time.monotonic() + _DRAIN_LIMIT_S
        while self._ledger.delivered_numbers() < produced.acknowledged:
            if time.monotonic() > deadline_s:
                break  # the ledger shows what is missing
            await trio.sleep(_DRAIN_POLL_S)
        log.info("consumers_drained", records=self._ledger.count_delivered())
        return produced


@contextmanager
def _security_of_clients(access: Access) -> Iterator[Sequence[str]]:
    """The argument that lets client processes authenticate as the gateway does; none if the cluster
    wants no SASL. A file of this user's keeps the password from the command line."""
    if access.credentials is None:
        yield ()
        return
    lines = [f"{name}={value}\n" for name, value in security_config(access).items()]
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="groupferry-demo-") as file:
        file.writelines(lines)
        file.flush()
        yield (f"--security={file.name}",)


async def _obey(signals: AsyncIterator[int]) -> None:
    async for number in signals:
        raise Interrupted(signal.Signals(number))


def _committed_offsets(upstream: DemoCluster, partitions: int) -> tuple[int, ...]:
    """Ask the upstream directly, with a client that is not ours. Blocks: call it in a thread."""
    reader = Consumer(
        {
            "bootstrap.servers": upstream.bootstrap,
            "group.id": upstream.group,
            "log_level": 0,
            **security_config(upstream.access),
        }
    )
    wanted = [TopicPartition(upstream.topic, partition) for partition in range(partitions)]
    try:
        stored = reader.committed(wanted, timeout=_UPSTREAM_LIMIT_S)
    except KafkaException as failure:
        raise DemoError(f"reading the committed offsets upstream failed: {failure}") from failure
    finally:
        reader.close()
    return tuple(
        max(partition.offset, 0)
        for partition in sorted(stored, key=lambda partition: partition.partition)
    )
