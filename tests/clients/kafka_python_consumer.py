"""A consumer of kafka-python, classic protocol only.

It reports as the demo's own consumer does, see `gateway.demo.reports`.
"""

import argparse
import contextlib
import logging
import sys
import time
from collections.abc import Iterable

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from gateway.demo.clients import StopRequest, end_now
from gateway.demo.reports import (
    Assigned,
    Closed,
    Consumed,
    Lost,
    Revoked,
    as_runs,
    say,
)

ASSIGNORS = {
    each.name: each
    for each in (
        RangePartitionAssignor,
        RoundRobinPartitionAssignor,
        CooperativeStickyAssignor,
    )
}


class Reporter(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Reports what the client owns. The client itself commits before it gives partitions up."""

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        say(Assigned(at_s=time.monotonic(), partitions=numbers_of(assigned)))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        say(Revoked(at_s=time.monotonic(), partitions=numbers_of(revoked)))

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        say(Lost(at_s=time.monotonic(), partitions=numbers_of(lost)))


def numbers_of(partitions: Iterable[TopicPartition]) -> tuple[int, ...]:
    return tuple(sorted(each.partition for each in partitions))


def main() -> None:
    """Consume until asked to end."""
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--topic", "--group", "--client-id", "--protocol", "--assignor"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    stop = StopRequest()
    consumer = KafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        client_id=options.client_id,
        partition_assignment_strategy=[ASSIGNORS[each] for each in options.assignor.split(",")],
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
        fetch_max_wait_ms=50,
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
    )
    consumer.subscribe([options.topic], listener=Reporter())
    with contextlib.suppress(BrokenPipeError):
        while not stop:
            for partition, records in consumer.poll(timeout_ms=100).items():
                runs = as_runs(int(record.value) for record in records)
                say(Consumed(at_s=time.monotonic(), partition=partition.partition, runs=runs))
        consumer.close()
        say(Closed(at_s=time.monotonic()))
    end_now()


if __name__ == "__main__":
    main()
