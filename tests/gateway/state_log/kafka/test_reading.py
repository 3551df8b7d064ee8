"""When a cluster counts as silent. What is read from a real one: `test_kafka_log_with_kafka.py`."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from gateway.state_log.kafka import reading
from gateway.state_log.kafka.reading import READ_SILENCE_S, read_all
from gateway.state_log.log import StateLogError

HIDDEN = 10


class SlowConsumer:
    """Reads what is not shown, such as the ends of transactions, and takes its time."""

    now_s = 0.0

    def __init__(self, _config: object) -> None:
        self._position = 0

    def assign(self, _partitions: object) -> None: ...

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
    """Be it only what readers are not shown."""
    monkeypatch.setattr(reading, "Consumer", SlowConsumer)
    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=lambda: SlowConsumer.now_s))
    with pytest.raises(StateLogError, match="the cluster does not answer"):
        list(read_all({}, topic="t", partition=0))
    assert SlowConsumer.now_s > HIDDEN * 0.6 * READ_SILENCE_S
