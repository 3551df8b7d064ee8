"""Reads the lines of a topic into which gateways write their events.

Everything here blocks. A reader takes part in no group: it reads from offsets that its caller
keeps.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from gateway.addresses import Address
from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.errors import UpstreamRefused
from gateway.cluster.librdkafka import client_config
from gateway.pipeline import PipelineError
from gateway.pipeline.fold.folding import SourceLine

CLIENT_ID = "groupferry-report"
CLUSTER_TIMEOUT_S = 15.0
SILENCE_S_MAX = 180.0
"""A cluster that is silent for this long counts as unreadable."""
_AT_A_TIME, _AT_A_TIME_S = 1_000, 0.5


class Span(NamedTuple):
    """Records of a partition."""

    name: str
    """What stands for the file of their lines."""
    partition: int
    begin: int
    """The first offset."""
    end: int
    """The offset behind the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsTopic:
    """A topic and its cluster."""

    name: str
    upstream: Sequence[Address]
    access: Access = PLAIN_ACCESS

    def __str__(self) -> str:
        return f"topic {self.name} at {','.join(map(str, self.upstream))}"

    def config(self) -> Mapping[str, Any]:
        """The configuration of a client, with the password in it. Raises PipelineError."""
        try:
            return client_config(self.upstream, CLIENT_ID, self.access)
        except UpstreamRefused as error:
            raise PipelineError(str(error)) from None

    def spans(self, timeout_s: float | None = None) -> list[Span]:
        """All records that the topic has now. A signal interrupts it. Raises PipelineError."""
        timeout_s = CLUSTER_TIMEOUT_S if timeout_s is None else timeout_s
        return _interruptible(partial(self._spans, timeout_s))

    def _spans(self, timeout_s: float) -> list[Span]:
        with _open_consumer(self, self.config()) as consumer:
            known = consumer.list_topics(self.name, timeout=timeout_s).topics[self.name]
            if known.error is not None:
                is_missing = known.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
                reason = (
                    "there is no such topic; see events_topic" if is_missing else known.error.str()
                )
                raise PipelineError(f"{self}: {reason}")
            partitions = [TopicPartition(self.name, number) for number in sorted(known.partitions)]
            offsets = [
                consumer.get_watermark_offsets(partition, timeout=timeout_s)
                for partition in partitions
            ]
            if None in offsets:
                raise PipelineError(f"{self}: the cluster does not answer; try again")
            return [
                Span(f"kafka:{self.name}/{number}", number, begin, end)
                for number, (begin, end) in enumerate(offsets)
                if begin < end
            ]


Answer = TypeVar("Answer")


def _interruptible(call: Callable[[], Answer]) -> Answer:
    """Call in a thread, so that a signal is not left until librdkafka gives up on the cluster."""
    future = Future[Answer]()

    def answer() -> None:
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=answer, daemon=True).start()
    return future.result()


def read_span(topic: EventsTopic, config: Mapping[str, Any], span: Span) -> Iterator[SourceLine]:
    """The lines of records, as far as they still exist: a gap shows up in the sequences. Raises
    PipelineError."""
    beginning = TopicPartition(topic.name, span.partition, span.begin)
    reached, give_up_at = span.begin, time.monotonic() + SILENCE_S_MAX
    with _open_consumer(topic, config) as consumer:
        consumer.assign([beginning])
        while time.monotonic() < give_up_at:
            for message in consumer.consume(_AT_A_TIME, _AT_A_TIME_S):
                if _is_behind(message, span):
                    return
                if message.error() is None:
                    # A record may have no value, or one that is not text.
                    text = (message.value() or b"").decode("utf-8", "replace")
                    yield SourceLine(span.name, f"offset {message.offset()}", text)
            # The position also advances past invisible records, as of transactions.
            (position,) = consumer.position([beginning])
            if position.offset >= span.end:
                return
            if position.offset > reached:
                reached, give_up_at = position.offset, time.monotonic() + SILENCE_S_MAX
    raise PipelineError(f"{topic}: the cluster does not answer: try again once it does")


def _is_behind(message: Message, span: Span) -> bool:
    """Whether a message comes behind the span. Raises KafkaException if the topic may not be
    read."""
    error = message.error()
    if error is None:
        return (message.offset() or 0) >= span.end
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        raise KafkaException(error)
    # A leader that has just been elected may say an earlier end for a moment.
    is_end = error.code() == KafkaError._PARTITION_EOF
    return bool(is_end and (message.offset() or 0) >= span.end)


@contextmanager
def _open_consumer(topic: EventsTopic, config: Mapping[str, Any]) -> Iterator[Consumer]:
    """A consumer within the block, where its errors become a PipelineError."""
    consumer = Consumer(
        {
            **config,
            "group.id": CLIENT_ID,  # required, but nothing joins that group or commits to it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        yield consumer
    except KafkaException as error:
        raise PipelineError(f"{topic}: {error.args[0].str()}") from None
    finally:
        consumer.close()
