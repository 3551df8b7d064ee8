"""Detection of a silent cluster. `test_kafka_log_with_kafka.py` reads a real one."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from confluent_kafka import TopicPartition

from gateway.state_log.kafka import reading
from gateway.state_log.kafka.reading import READ_SILENCE_S, read_all
from gateway.state_log.log import StateLogError

HIDDEN = 10


class SlowConsumer:
    """A consumer that slowly reads invisible records, such as the ends of transactions."""

    now_s = 0.0

    calls: ClassVar[list[str]] = []

    def __init__(self, _config: object) -> None:
        self._position = 0

    def list_topics(self, topic: str, _timeout_s: float) -> None:
        self.calls.append(f"metadata of {topic}")

    def assign(self, _partitions: object) -> None:
        self.calls.append("assign")

    def close(self) -> None: ...

    def consume(self, _count: int, _timeout_s: float) -> list[Any]:
        SlowConsumer.now_s += 0.6 * READ_SILENCE_S
        self._position = min(self._position + 1, HIDDEN)
        return []

    def position(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        (asked,) = partitions
        return [TopicPartition(asked.topic, asked.partition, self._position)]


def test_a_cluster_is_not_silent_while_there_is_more_to_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This includes records that readers do not see."""
    monkeypatch.setattr(reading, "Consumer", SlowConsumer)
    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=lambda: SlowConsumer.now_s))
    with pytest.raises(StateLogError, match="the cluster does not answer"):
        list(read_all({}, topic="t", partitions=(0,)))
    assert SlowConsumer.now_s > HIDDEN * 0.6 * READ_SILENCE_S


def test_the_leaders_are_known_before_the_beginnings_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In any other order librdkafka waits for half a second, and an owner reads a shard twice."""
    monkeypatch.setattr(reading, "Consumer", SlowConsumer)
    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=lambda: SlowConsumer.now_s))
    SlowConsumer.calls.clear()
    with pytest.raises(StateLogError):
        list(read_all({}, topic="t", partitions=(0,)))
    assert SlowConsumer.calls == ["metadata of t", "assign"]
