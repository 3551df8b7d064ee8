"""The partitions that the cluster shows as those of the anchor.

Tools that bypass the gateway thus see all partitions of the group, with their lag.
"""

from collections.abc import Iterable

from coordinator.interface.topics import Topics
from gateway.hosting.logged_engine import LoggedEngine
from kafka_codecs.consumer_protocol import Assignment, TopicPartition, encode_assignment

ASSIGNMENT_BYTES_MAX = 64 * 1024
"""About 16,000 partitions. The cluster stores the assignment with each generation of the anchor,
and repeats it in every description of the group."""
_BYTES_PER_TOPIC, _BYTES_PER_PARTITION = 6, 4
_BYTES_AROUND = 10


class ShownPartitions:
    """All partitions of the topics that a group's members subscribe to."""

    def __init__(self, engine: LoggedEngine) -> None:
        self._engine = engine
        self._computed_for: tuple[int, int] | None = None
        self._assignment = assignment_of((), Topics())

    def assignment(self) -> bytes:
        """Computed only when the group's epoch or its topics have changed. While the group's topics
        are unknown, as in the first rebalance of a classic group, the latest ones remain."""
        core, topics = self._engine.core, self._engine.topics
        present = (core.epoch, topics.version)
        if present != self._computed_for:
            self._computed_for = present
            if names := core.subscribed_topics():
                self._assignment = assignment_of(names, topics)
        return self._assignment


def assignment_of(names: Iterable[str], topics: Topics) -> bytes:
    """An assignment of all partitions of these topics, in the order of their names. Topics for
    which there is no room are left out."""
    taken, room = [], ASSIGNMENT_BYTES_MAX - _BYTES_AROUND
    for name in sorted(names):
        if (topic := topics.by_name.get(name)) is None:
            continue
        length = (
            _BYTES_PER_TOPIC + len(name.encode()) + _BYTES_PER_PARTITION * topic.partition_count
        )
        if length <= room:
            room -= length
            taken.append(TopicPartition(topic=name, partitions=tuple(range(topic.partition_count))))
    return encode_assignment(Assignment(assigned_partitions=tuple(taken)), 0)
