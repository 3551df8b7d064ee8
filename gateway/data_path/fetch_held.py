"""Changes a Fetch that names private topics: the broker answers immediately, with a size that can
be held in memory, and outside of any session, since a session names a topic only once. Pure."""

from dataclasses import replace

from kafka_codecs.fetch import FetchRequest, FetchTopic

FETCHED_BYTES_MAX = 1024 * 1024
"""The broker exceeds this only if the first batch is longer."""

MAX_BYTES_SINCE = 3
"""Before it, only each partition has a limit."""

_NO_SESSION_ID, _NO_SESSION_EPOCH = 0, -1


def held_fetch(request: FetchRequest, version: int) -> FetchRequest:
    """The request without a session, and with a limit on its answer."""
    topics = request.topics
    if version < MAX_BYTES_SINCE:
        partition_count = sum(len(topic.partitions) for topic in topics)
        share_bytes = FETCHED_BYTES_MAX // max(partition_count, 1)
        topics = tuple(_limit_partitions(topic, share_bytes) for topic in topics)
    return replace(
        request,
        topics=topics,
        max_wait_ms=0,
        max_bytes=min(request.max_bytes, FETCHED_BYTES_MAX),
        session_id=_NO_SESSION_ID,
        session_epoch=_NO_SESSION_EPOCH,
        forgotten_topics_data=(),
    )


def _limit_partitions(topic: FetchTopic, limit_bytes: int) -> FetchTopic:
    return replace(
        topic,
        partitions=tuple(
            replace(partition, partition_max_bytes=min(partition.partition_max_bytes, limit_bytes))
            for partition in topic.partitions
        ),
    )
