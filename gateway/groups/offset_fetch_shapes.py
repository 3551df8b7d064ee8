"""The two shapes of OffsetFetch: up to v7 it is about one group, from v8 on about many.

Inside the gateway it is always the newer one; these functions go from one to the other.
"""

from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

FIRST_VERSION_WITH_GROUP_ERROR = 2
FIRST_VERSION_WITH_BATCHES = 8


def groups_of(message: OffsetFetchRequest, version: int) -> tuple[OffsetFetchRequestGroup, ...]:
    """The groups that a client's request is about."""
    if version >= FIRST_VERSION_WITH_BATCHES:
        return message.groups
    return (OffsetFetchRequestGroup(group_id=message.group_id, topics=message.topics),)


def request_about(group: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchRequest:
    """A request of the older shape."""
    return OffsetFetchRequest(
        group_id=group.group_id, topics=group.topics, require_stable=require_stable
    )


def answer_about(group_id: str, answer: OffsetFetchResponse) -> OffsetFetchResponseGroup:
    """What an answer of the older shape says."""
    return OffsetFetchResponseGroup(
        group_id=group_id, error_code=answer.error_code, topics=answer.topics
    )


def response_of(groups: tuple[OffsetFetchResponseGroup, ...], version: int) -> OffsetFetchResponse:
    """The answer in the shape that the client's version has."""
    if version >= FIRST_VERSION_WITH_BATCHES:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    return OffsetFetchResponse(error_code=group.error_code, topics=group.topics)


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
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=number, committed_offset=-1, metadata="", error_code=code
                    )
                    for number in topic.partition_indexes
                ),
            )
            for topic in group.topics or ()
        ),
    )
