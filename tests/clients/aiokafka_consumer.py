"""A classic consumer of aiokafka. It uses asyncio, because aiokafka does.

It reports like the demo's own consumer, see `gateway.demo.reports`.
"""

import argparse
import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError

from gateway.demo.clients import StopRequest, end_now
from gateway.demo.reports import (
    AssignedReport,
    ClosedReport,
    CommittedReport,
    ConsumedReport,
    LostReport,
    RevokedReport,
    TroubledReport,
    as_runs,
    say,
)

ASSIGNORS = {
    assignor.name: assignor for assignor in (RangePartitionAssignor, RoundRobinPartitionAssignor)
}
COMMIT_INTERVAL_S = 0.5
RETRY_S = 0.5


class ReportingConsumer(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Consumes one topic, commits explicitly, and reports each step."""

    def __init__(self, consumer: AIOKafkaConsumer, topic: str) -> None:
        self._consumer = consumer
        self._uncommitted: dict[TopicPartition, int] = {}
        consumer.subscribe([topic], listener=self)

    async def run(self, stop: StopRequest) -> None:
        """Consume until asked to end."""
        await self._consumer.start()
        committed_s = time.monotonic()
        while not stop:
            try:
                polled = await self._consumer.getmany(timeout_ms=100)
            except KafkaError as error:  # raised while no broker answers, and by failed rejoins
                say(TroubledReport(at_s=time.monotonic(), doing="poll", error=str(error)))
                await asyncio.sleep(RETRY_S)
                continue
            for partition, records in polled.items():
                runs = as_runs(int(record.value) for record in records)
                say(ConsumedReport(at_s=time.monotonic(), partition=partition.partition, runs=runs))
                self._uncommitted[partition] = records[-1].offset + 1
            if time.monotonic() - committed_s >= COMMIT_INTERVAL_S:
                committed_s = time.monotonic()
                await self._commit(self._uncommitted)
        await self._commit(self._uncommitted)  # it closes without a callback
        await self._consumer.stop()
        say(ClosedReport(at_s=time.monotonic()))

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        if assigned:
            say(AssignedReport(at_s=time.monotonic(), partitions=numbers_of(assigned)))

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        await self._commit(revoked)
        self._uncommitted.clear()
        if revoked:
            # aiokafka has no callback for partitions that it has lost.
            is_fenced = self._consumer._coordinator.generation < 0
            report = LostReport if is_fenced else RevokedReport
            say(report(at_s=time.monotonic(), partitions=numbers_of(revoked)))

    async def _commit(self, partitions: Iterable[TopicPartition]) -> None:
        """Commit these partitions and wait for the answer."""
        offsets = {
            partition: self._uncommitted[partition]
            for partition in partitions
            if partition in self._uncommitted
        }
        if not offsets:
            return
        try:
            await self._consumer.commit(offsets)
        except KafkaError as refusal:
            say(TroubledReport(at_s=time.monotonic(), doing="commit", error=str(refusal)))
            return
        for partition, offset in offsets.items():
            if self._uncommitted.get(partition) == offset:
                del self._uncommitted[partition]
        pairs = tuple((partition.partition, offset) for partition, offset in offsets.items())
        say(CommittedReport(at_s=time.monotonic(), offsets=pairs))


def numbers_of(partitions: Iterable[TopicPartition]) -> tuple[int, ...]:
    return tuple(sorted(partition.partition for partition in partitions))


async def consume(options: argparse.Namespace, stop: StopRequest) -> None:
    """Consume until asked to end."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        client_id=options.client_id,
        partition_assignment_strategy=(ASSIGNORS[options.assignor],),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=250,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=500,
    )
    await ReportingConsumer(consumer, options.topic).run(stop)


def main() -> None:
    """Run as the child."""
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--topic", "--group", "--client-id", "--protocol", "--assignor"):
        parser.add_argument(name, required=True)
    parser.add_argument("--session-timeout-ms", type=int, default=6000)
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    stop = StopRequest()
    with contextlib.suppress(BrokenPipeError):
        asyncio.run(consume(options, stop))
    end_now()


if __name__ == "__main__":
    main()
