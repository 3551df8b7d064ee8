"""Child process: writes numbered records at a steady rate and counts the acknowledged ones.

Record n goes to partition n modulo the number of partitions and contains n in decimal. It is never
null, because the embedded cluster dies of null records. The producer is idempotent, so a record
that is delivered twice was delivered twice by the group.
"""

import argparse
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from gateway.demo.clients import StopRequest, end_now, read_security
from gateway.demo.reports import ProducedReport, TroubledReport, say

_TICK_S = 0.02
_REPORT_INTERVAL_S = 0.5
_FLUSH_LIMIT_S = 10.0


class NumberedRecords:
    """Produces 0, 1, 2, ... and counts acknowledged and failed records."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, security: Mapping[str, str]
    ) -> None:
        self._topic = topic
        self._next = 0
        self._acknowledged = 0
        self._failed = 0
        self._end_offsets = [0] * partitions
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "producer",
                "enable.idempotence": True,
                "linger.ms": 200,
                "log_level": 0,  # errors come through error_cb
                "error_cb": _trouble,
                **security,
            }
        )

    def produce_up_to(self, end: int) -> None:
        """Hand over the records below `end`, as far as the client's queue has room."""
        partitions = len(self._end_offsets)
        with contextlib.suppress(BufferError):
            while self._next < end:
                self._producer.produce(
                    self._topic,
                    str(self._next).encode(),
                    partition=self._next % partitions,
                    on_delivery=self._on_delivery,
                )
                self._next += 1

    def wait(self, limit_s: float) -> None:
        """Serve acknowledgements for this long."""
        self._producer.poll(limit_s)

    def finish(self) -> None:
        """Wait for outstanding acknowledgements; records without one count as failed."""
        self._failed += self._producer.flush(_FLUSH_LIMIT_S)
        self.report(final=True)

    def report(self, *, final: bool = False) -> None:
        say(
            ProducedReport(
                at_s=time.monotonic(),
                acknowledged=self._acknowledged,
                failed=self._failed,
                end_offsets=tuple(self._end_offsets),
                final=final,
            )
        )

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed += 1
            _trouble(error)
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self._acknowledged += 1
        self._end_offsets[partition] = max(self._end_offsets[partition], offset + 1)


def _trouble(error: KafkaError) -> None:
    say(TroubledReport(at_s=time.monotonic(), doing="produce", error=str(error)))


def main() -> None:
    """Produce until asked to end, then flush and report the final count."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, help="records per second")
    parser.add_argument("--security", type=Path, help="file with NAME=VALUE lines for librdkafka")
    options = parser.parse_args()
    stop = StopRequest()
    security = read_security(options.security)
    records = NumberedRecords(options.bootstrap, options.topic, options.partitions, security)
    started_s = reported_s = time.monotonic()
    with contextlib.suppress(BrokenPipeError):
        while not stop:
            now_s = time.monotonic()
            records.produce_up_to(int((now_s - started_s) * options.rate))
            records.wait(_TICK_S)
            if now_s - reported_s >= _REPORT_INTERVAL_S:
                reported_s = now_s
                records.report()
        records.finish()
    end_now()


if __name__ == "__main__":
    main()
