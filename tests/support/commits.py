"""OffsetCommit and TxnOffsetCommit by topic and partition."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from kafka_codecs.declaration import Struct
from kafka_codecs.metadata import NO_TOPIC_ID
from kafka_codecs.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_codecs.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def commit_of(
    offsets: Mapping[str, Mapping[int, int]],
    *,
    group_id: str = "g",
    member_id: str = "",
    epoch: int = -1,
    instance_id: str | None = None,
    metadata: str | None = "",
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(
                name=name,
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=number, committed_offset=at, committed_metadata=metadata
                    )
                    for number, at in partitions.items()
                ),
            )
            for name, partitions in offsets.items()
        ),
    )


def transactional_commit_of(
    offsets: Mapping[str, Mapping[int, int]] | Mapping[UUID, Mapping[int, int]],
    *,
    group_id: str = "g",
    member_id: str = "",
    generation: int = -1,
) -> TxnOffsetCommitRequest:
    """A TxnOffsetCommit of these offsets, by topic name or id, in a transaction of producer 1 with
    epoch 2."""
    return TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=group_id,
        producer_id=1,
        producer_epoch=2,
        generation_id=generation,
        member_id=member_id,
        topics=tuple(
            TxnOffsetCommitRequestTopic(
                name=key if isinstance(key, str) else "",
                topic_id=NO_TOPIC_ID if isinstance(key, str) else key,
                partitions=tuple(
                    TxnOffsetCommitRequestPartition(
                        partition_index=number, committed_offset=at, committed_metadata=""
                    )
                    for number, at in partitions.items()
                ),
            )
            for key, partitions in offsets.items()
        ),
    )


RESPONSES: Mapping[type[Struct], tuple[Any, Any, Any]] = {
    OffsetCommitRequest: (
        OffsetCommitResponse,
        OffsetCommitResponseTopic,
        OffsetCommitResponsePartition,
    ),
    TxnOffsetCommitRequest: (
        TxnOffsetCommitResponse,
        TxnOffsetCommitResponseTopic,
        TxnOffsetCommitResponsePartition,
    ),
}


def answer_commit(
    request: OffsetCommitRequest | TxnOffsetCommitRequest, code_of: Callable[[str], int]
) -> Struct:
    """The answer to a commit, with the error code of each topic."""
    response, response_topic, response_partition = RESPONSES[type(request)]
    answer: Struct = response(
        topics=tuple(
            response_topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    response_partition(
                        partition_index=partition.partition_index, error_code=code_of(topic.name)
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
    return answer


def codes_of(
    answer: OffsetCommitResponse | TxnOffsetCommitResponse,
) -> dict[str | UUID, dict[int, int]]:
    """The error code of each partition, by the topics' names, or ids where they have none."""
    return {
        topic.name or topic.topic_id: {p.partition_index: p.error_code for p in topic.partitions}
        for topic in answer.topics
    }
