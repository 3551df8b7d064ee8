"""Group apis that ask the upstream the same thing: enough for the data path's own tests."""

from gateway.data_path.group_apis import GroupRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

_BATCHED_SINCE = 8
_BEFORE_REQUIRE_STABLE = 6


class ForwardEverything:
    """Relays every group request; batches of OffsetFetch, which the mock lacks, one by one."""

    async def answer(self, request: GroupRequest) -> Struct:
        """The upstream's own answer."""
        message, version = request.message, request.header.api_version
        if isinstance(message, OffsetFetchRequest) and version >= _BATCHED_SINCE:
            return await _fetch_each(request, message)
        answer: Struct = await request.upstream.ask(message, version)
        return answer


async def _fetch_each(request: GroupRequest, message: OffsetFetchRequest) -> OffsetFetchResponse:
    groups = []
    for group in message.groups:
        topics = tuple(
            OffsetFetchRequestTopic(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in group.topics or ()
        )
        single = OffsetFetchRequest(group_id=group.group_id, topics=topics)
        answer: OffsetFetchResponse = await request.upstream.ask(single, _BEFORE_REQUIRE_STABLE)
        groups.append(
            OffsetFetchResponseGroup(
                group_id=group.group_id,
                topics=tuple(
                    OffsetFetchResponseTopics(
                        name=topic.name,
                        partitions=tuple(
                            OffsetFetchResponsePartitions(
                                partition_index=each.partition_index,
                                committed_offset=each.committed_offset,
                                committed_leader_epoch=each.committed_leader_epoch,
                                metadata=each.metadata,
                                error_code=each.error_code,
                            )
                            for each in topic.partitions
                        ),
                    )
                    for topic in answer.topics
                ),
            )
        )
    return OffsetFetchResponse(groups=tuple(groups))
