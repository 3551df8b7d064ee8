"""Splits an OffsetDelete of a hosted group into partitions that stay and partitions to delete.

Pure: the image of the topics says what exists, the engine's verdict which topics are subscribed.
"""

from collections.abc import Callable
from dataclasses import replace

from coordinator.interface.topics import Topics
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

Topic = OffsetDeleteRequestTopic
Wanted = Callable[[str, int], bool]


def deletable(request: OffsetDeleteRequest, stays: Wanted) -> tuple[Topic, ...]:
    """The part of a request that the cluster decides."""
    return _filtered(request.topics, lambda name, index: not stays(name, index))


def kept(request: OffsetDeleteRequest, stays: Wanted) -> tuple[OffsetDeleteResponseTopic, ...]:
    """The answers for partitions that stay because their topic is subscribed."""
    return tuple(
        _with_code(topic, lambda _: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
        for topic in _filtered(request.topics, stays)
    )


def answered_here(
    topics: tuple[Topic, ...], image: Topics, code: ErrorCode
) -> tuple[OffsetDeleteResponseTopic, ...]:
    """The answers for partitions that the cluster is not asked about: `code` for existing ones."""

    def answered(topic: Topic) -> OffsetDeleteResponseTopic:
        return _with_code(
            topic,
            lambda index: (
                code if exists(image, topic.name, index) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            ),
        )

    return tuple(answered(topic) for topic in topics)


def exists(image: Topics, name: str, index: int) -> bool:
    """Whether the partition exists."""
    topic = image.by_name.get(name)
    return topic is not None and 0 <= index < topic.partition_count


def _filtered(topics: tuple[Topic, ...], wanted: Wanted) -> tuple[Topic, ...]:
    chosen = (
        (topic, tuple(p for p in topic.partitions if wanted(topic.name, p.partition_index)))
        for topic in topics
    )
    return tuple(replace(topic, partitions=some) for topic, some in chosen if some)


def _with_code(topic: Topic, code: Callable[[int], int]) -> OffsetDeleteResponseTopic:
    def partition(asked: OffsetDeleteRequestPartition) -> OffsetDeleteResponsePartition:
        index = asked.partition_index
        return OffsetDeleteResponsePartition(partition_index=index, error_code=code(index))

    return OffsetDeleteResponseTopic(
        name=topic.name, partitions=tuple(partition(asked) for asked in topic.partitions)
    )
