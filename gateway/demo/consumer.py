"""Child process: one real consumer, `confluent_kafka.Consumer`, with either group protocol.

It reports what its callbacks observe: partitions assigned and revoked, record numbers consumed,
commits acknowledged. It never assigns by itself: confluent-kafka does so right after a callback
returns, incrementally or not as the rebalance protocol requires. The end of a callback is therefore
the moment at which the client gives partitions up.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
    libversion,
)

from gateway.demo.clients import StopRequest, end_now, read_security
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

_POLL_S = 0.1
_REPORT_INTERVAL_S = 0.2
_COMMIT_INTERVAL_S = 1.0
_FIRST_WITH_GROUP_PROTOCOL = 0x02_04_00_00  # of librdkafka
# The shortest session that Kafka allows by default (group.min.session.timeout.ms), with frequent
# heartbeats: a classic member learns of a rebalance with its next one, and the demo is in a hurry.
_SESSION_TIMEOUT_MS = 6_000
_HEARTBEAT_INTERVAL_MS = 500


def configuration(options: argparse.Namespace) -> dict[str, Any]:
    """The client's configuration. The broker sets timers and assignor of a native member."""
    config: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap,
        "group.id": options.group,
        "client.id": options.client_id,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        # The embedded cluster holds an empty fetch for the whole wait.
        "fetch.wait.max.ms": 250,
        "log_level": 0,  # errors come through error_cb
    }
    if libversion()[1] >= _FIRST_WITH_GROUP_PROTOCOL:
        config["group.protocol"] = options.protocol
    if options.protocol == "classic":
        config |= {
            "partition.assignment.strategy": options.assignor,
            "session.timeout.ms": options.session_timeout_ms,
            "heartbeat.interval.ms": _HEARTBEAT_INTERVAL_MS,
        }
    if options.static:
        config["group.instance.id"] = options.client_id
    return config | read_security(options.security)


class ReportingConsumer:
    """Consumes one topic, commits explicitly, and reports each step."""

    def __init__(self, config: dict[str, Any], topic: str) -> None:
        self._topic = topic
        self._unreported: dict[int, list[int]] = {}
        self._uncommitted: dict[int, int] = {}
        self._consumer = Consumer(
            config | {"on_commit": self._on_commit, "error_cb": self._on_error}
        )
        self._consumer.subscribe(
            [topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def run(self, stop: StopRequest) -> None:
        """Consume until asked to stop, then close cleanly.

        A static member does not leave the group: its place is kept for its replacement.
        """
        reported_s = committed_s = time.monotonic()
        while not stop:
            message = self._consumer.poll(_POLL_S)
            if message is not None:
                self._take(message)
            now_s = time.monotonic()
            if now_s - reported_s >= _REPORT_INTERVAL_S:
                reported_s = now_s
                self._report_consumed()
            if now_s - committed_s >= _COMMIT_INTERVAL_S:
                committed_s = now_s
                self._commit_soon()
        self._report_consumed()
        self._commit_now(list(self._uncommitted))
        self._consumer.close()
        say(ClosedReport(at_s=time.monotonic()))

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            self._on_error(error)
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert value is not None
        self._unreported.setdefault(partition, []).append(int(value))
        self._uncommitted[partition] = offset + 1

    def _report_consumed(self) -> None:
        for partition, numbers in self._unreported.items():
            say(ConsumedReport(at_s=time.monotonic(), partition=partition, runs=as_runs(numbers)))
        self._unreported.clear()

    def _commit_soon(self) -> None:
        """Report before committing: if killed in between, the ledger would miss what was
        consumed."""
        self._report_consumed()
        offsets = self._offsets_to_commit(list(self._uncommitted))
        if offsets:
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def _commit_now(self, partitions: list[int]) -> None:
        """Commit what was consumed of these partitions, and wait for the answer.

        A refusal is only reported: the next owner then consumes those records again.
        """
        offsets = self._offsets_to_commit(partitions)
        if not offsets:
            return
        try:
            self._on_commit(None, self._consumer.commit(offsets=offsets, asynchronous=False))
        except KafkaException as refusal:
            self._on_commit(refusal.args[0], offsets)

    def _offsets_to_commit(self, partitions: list[int]) -> list[TopicPartition]:
        return [
            TopicPartition(self._topic, partition, self._uncommitted[partition])
            for partition in partitions
            if partition in self._uncommitted
        ]

    def _forget(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            self._uncommitted.pop(partition.partition, None)

    def _on_assign(self, _: Consumer, added: list[TopicPartition]) -> None:
        say(AssignedReport(at_s=time.monotonic(), partitions=_numbers(added)))

    def _on_revoke(self, _: Consumer, removed: list[TopicPartition]) -> None:
        self._report_consumed()
        self._commit_now([partition.partition for partition in removed])
        self._forget(removed)
        say(RevokedReport(at_s=time.monotonic(), partitions=_numbers(removed)))

    def _on_lost(self, _: Consumer, removed: list[TopicPartition]) -> None:
        self._report_consumed()
        self._forget(removed)  # their new owners may have committed already
        say(LostReport(at_s=time.monotonic(), partitions=_numbers(removed)))

    def _on_commit(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        for refusal in {
            str(partition.error or error) for partition in offsets if partition.error or error
        }:
            say(TroubledReport(at_s=time.monotonic(), doing="commit", error=refusal))
        stored = [partition for partition in offsets if not (partition.error or error)]
        for partition in stored:
            # A later record may have been consumed since this commit was sent.
            if self._uncommitted.get(partition.partition) == partition.offset:
                self._forget([partition])
        if stored:
            pairs = tuple((partition.partition, partition.offset) for partition in stored)
            say(CommittedReport(at_s=time.monotonic(), offsets=pairs))

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._FATAL:
            # The client is unusable, for example because a killed static member still holds its
            # place (UNRELEASED_INSTANCE_ID). Another process may try later.
            raise KafkaException(error)
        say(TroubledReport(at_s=time.monotonic(), doing="consume", error=str(error)))


def _numbers(partitions: list[TopicPartition]) -> tuple[int, ...]:
    return tuple(sorted(partition.partition for partition in partitions))


def main() -> None:
    """Consume until asked to end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--client-id", required=True)
    parser.add_argument("--protocol", choices=("classic", "consumer"), required=True)
    parser.add_argument("--assignor", required=True, help="for the classic protocol")
    parser.add_argument("--session-timeout-ms", type=int, default=_SESSION_TIMEOUT_MS)
    parser.add_argument("--static", action="store_true", help="client id as group.instance.id")
    parser.add_argument("--security", type=Path, help="file with NAME=VALUE lines for librdkafka")
    options = parser.parse_args()
    stop = StopRequest()
    try:
        ReportingConsumer(configuration(options), options.topic).run(stop)
    except BrokenPipeError:  # the parent is gone
        end_now()
    except KafkaException as failure:
        end_now(failure.args[0].str())
    end_now()


if __name__ == "__main__":
    main()
