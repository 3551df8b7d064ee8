"""A classic consumer of kafka-python.

It reports like the demo's own consumer, see `gateway.demo.reports`.
"""

import argparse
import contextlib
import importlib
import logging
import sys
import time
from collections.abc import Iterable, Mapping

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

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

RETRY_S = 0.5


class Reporter(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Reports the owned partitions. The client itself commits before it revokes: since 3.0 its
    callbacks cannot wait for a commit."""

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        say(AssignedReport(at_s=time.monotonic(), partitions=numbers_of(assigned)))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        say(RevokedReport(at_s=time.monotonic(), partitions=numbers_of(revoked)))

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        say(LostReport(at_s=time.monotonic(), partitions=numbers_of(lost)))


def on_commit(offsets: Mapping[TopicPartition, OffsetAndMetadata], answer: object) -> None:
    """Report a commit that the client itself made."""
    if isinstance(answer, Exception):
        say(TroubledReport(at_s=time.monotonic(), doing="commit", error=str(answer)))
        return
    pairs = tuple(
        (partition.partition, committed.offset) for partition, committed in offsets.items()
    )
    say(CommittedReport(at_s=time.monotonic(), offsets=pairs))


def numbers_of(partitions: Iterable[TopicPartition]) -> tuple[int, ...]:
    return tuple(sorted(partition.partition for partition in partitions))


def assignors() -> dict[str, type[AbstractPartitionAssignor]]:
    """The assignors of this version of the client by name."""
    assignors = {
        assignor.name: assignor
        for assignor in (RangePartitionAssignor, RoundRobinPartitionAssignor)
    }
    with contextlib.suppress(ImportError):
        module = importlib.import_module("kafka.coordinator.assignors.cooperative_sticky")
        assignors[module.CooperativeStickyAssignor.name] = module.CooperativeStickyAssignor
    return assignors


def main() -> None:
    """Run as the child."""
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--topic", "--group", "--client-id", "--protocol", "--assignor"):
        parser.add_argument(name, required=True)
    parser.add_argument("--session-timeout-ms", type=int, default=6000)
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    stop = StopRequest()
    known = assignors()
    consumer = KafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        client_id=options.client_id,
        partition_assignment_strategy=[known[name] for name in options.assignor.split(",")],
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
        default_offset_commit_callback=on_commit,
        fetch_max_wait_ms=250,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=500,
    )
    consumer.subscribe([options.topic], listener=Reporter())
    with contextlib.suppress(BrokenPipeError):
        while not stop:
            try:
                polled = consumer.poll(timeout_ms=100)
            except KafkaError as error:  # raised while no broker answers
                say(TroubledReport(at_s=time.monotonic(), doing="poll", error=str(error)))
                time.sleep(RETRY_S)
                continue
            for partition, records in polled.items():
                runs = as_runs(int(record.value) for record in records)
                say(ConsumedReport(at_s=time.monotonic(), partition=partition.partition, runs=runs))
        consumer.close()
        say(ClosedReport(at_s=time.monotonic()))
    end_now()


if __name__ == "__main__":
    main()
