"""OffsetCommit and TxnOffsetCommit by topic and partition."""

from collections.abc import Mapping
from uuid import UUID

from kafka_codecs.metadata import NO_TOPIC_ID
from kafka_codecs.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_codecs.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
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
    """An OffsetCommit of these offsets."""
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


def codes_of(
    answer: OffsetCommitResponse | TxnOffsetCommitResponse,
) -> dict[str | UUID, dict[int, int]]:
    """The error code of each partition, by the topics' names, or ids where they have none."""
    return {
        topic.name or topic.topic_id: {p.partition_index: p.error_code for p in topic.partitions}
        for topic in answer.topics
    }
