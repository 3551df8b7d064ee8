"""A consumer of aiokafka, classic protocol only; asyncio, because aiokafka is.

It reports as the demo's own consumer does, see `gateway.demo.reports`.
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

from gateway.demo.clients import StopRequest, end_now
from gateway.demo.reports import (
    Assigned,
    Closed,
    Consumed,
    Revoked,
    as_runs,
    say,
)

ASSIGNORS = {each.name: each for each in (RangePartitionAssignor, RoundRobinPartitionAssignor)}


class Reporter(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Reports what the client owns. The client itself commits before it gives partitions up."""

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        if assigned:
            say(Assigned(at_s=time.monotonic(), partitions=numbers_of(assigned)))

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        if revoked:
            say(Revoked(at_s=time.monotonic(), partitions=numbers_of(revoked)))


def numbers_of(partitions: Iterable[TopicPartition]) -> tuple[int, ...]:
    return tuple(sorted(each.partition for each in partitions))


async def consume(options: argparse.Namespace, stop: StopRequest) -> None:
    """Consume until asked to end."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        client_id=options.client_id,
        partition_assignment_strategy=(ASSIGNORS[options.assignor],),
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
        fetch_max_wait_ms=50,
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
    )
    consumer.subscribe([options.topic], listener=Reporter())
    await consumer.start()
    while not stop:
        for partition, records in (await consumer.getmany(timeout_ms=100)).items():
            runs = as_runs(int(record.value) for record in records)
            say(Consumed(at_s=time.monotonic(), partition=partition.partition, runs=runs))
    await consumer.stop()
    say(Closed(at_s=time.monotonic()))


def main() -> None:
    """Be the child."""
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--topic", "--group", "--client-id", "--protocol", "--assignor"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    stop = StopRequest()
    with contextlib.suppress(BrokenPipeError):
        asyncio.run(consume(options, stop))
    end_now()


if __name__ == "__main__":
    main()
