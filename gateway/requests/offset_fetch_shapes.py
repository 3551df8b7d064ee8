"""Converts between the two shapes of OffsetFetch: one group up to v7, a list of groups from v8 on.

The gateway works with the newer shape.
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
    """The groups that a client's request names."""
    if version >= FIRST_VERSION_WITH_BATCHES:
        return message.groups
    return (OffsetFetchRequestGroup(group_id=message.group_id, topics=message.topics),)


def request_about(group: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchRequest:
    """A request of the older shape."""
    return OffsetFetchRequest(
        group_id=group.group_id, topics=group.topics, require_stable=require_stable
    )


def answer_about(group_id: str, answer: OffsetFetchResponse) -> OffsetFetchResponseGroup:
    """An answer of the older shape as one of the newer."""
    return OffsetFetchResponseGroup(
        group_id=group_id, error_code=answer.error_code, topics=answer.topics
    )


def response_of(groups: tuple[OffsetFetchResponseGroup, ...], version: int) -> OffsetFetchResponse:
    """The answer in the shape of the client's version."""
    if version >= FIRST_VERSION_WITH_BATCHES:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    return OffsetFetchResponse(error_code=group.error_code, topics=group.topics)


def with_partition_errors(
    group: OffsetFetchRequestGroup, answer: OffsetFetchResponseGroup, version: int
) -> OffsetFetchResponseGroup:
    """Translate a group error for a client whose version has only partition errors."""
    if answer.error_code and version < FIRST_VERSION_WITH_GROUP_ERROR:
        return fail_group(group, answer.error_code, version)
    return answer


def fail_group(group: OffsetFetchRequestGroup, code: int, version: int) -> OffsetFetchResponseGroup:
    """An error for the whole group; up to v1 it is repeated for each partition."""
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
