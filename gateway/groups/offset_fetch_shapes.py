"""The two shapes of OffsetFetch: up to v7 it is about one group, from v8 on about many.

Inside the gateway it is always the newer one; these functions go from one to the other.
"""

from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

FIRST_VERSION_WITH_GROUP_ERROR = 2
FIRST_VERSION_WITH_BATCHES = 8


def groups_of(message: OffsetFetchRequest, version: int) -> tuple[OffsetFetchRequestGroup, ...]:
    """The groups that a client's request is about."""
    if version >= FIRST_VERSION_WITH_BATCHES:
        return message.groups
    topics = None
    if message.topics is not None:
        topics = tuple(
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in message.topics
        )
    return (OffsetFetchRequestGroup(group_id=message.group_id, topics=topics),)


def request_about(group: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchRequest:
    """A request of the older shape."""
    topics = None
    if group.topics is not None:
        topics = tuple(
            OffsetFetchRequestTopic(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in group.topics
        )
    return OffsetFetchRequest(group_id=group.group_id, topics=topics, require_stable=require_stable)


def answer_about(group_id: str, answer: OffsetFetchResponse) -> OffsetFetchResponseGroup:
    """What an answer of the older shape says."""
    return OffsetFetchResponseGroup(
        group_id=group_id,
        error_code=answer.error_code,
        topics=tuple(
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartitions(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in answer.topics
        ),
    )


def response_of(groups: tuple[OffsetFetchResponseGroup, ...], version: int) -> OffsetFetchResponse:
    """The answer in the shape that the client's version has."""
    if version >= FIRST_VERSION_WITH_BATCHES:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=tuple(
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in group.topics
        ),
    )


def told_apart(
    group: OffsetFetchRequestGroup, answer: OffsetFetchResponseGroup, version: int
) -> OffsetFetchResponseGroup:
    """The cluster may have been asked in a version that has an error for the whole group."""
    if answer.error_code and version < FIRST_VERSION_WITH_GROUP_ERROR:
        return failed(group, answer.error_code, version)
    return answer


def failed(group: OffsetFetchRequestGroup, code: int, version: int) -> OffsetFetchResponseGroup:
    """An error for the whole group; v1 can say it only for each partition."""
    if version >= FIRST_VERSION_WITH_GROUP_ERROR:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=tuple(
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartitions(
                        partition_index=number, committed_offset=-1, metadata="", error_code=code
                    )
                    for number in topic.partition_indexes
                ),
            )
            for topic in group.topics or ()
        ),
    )
