"""`groupferry offsets` without a broker: what it plans, and what it says of answers."""

from collections.abc import Mapping
from typing import cast

import pytest

from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamClosed, UpstreamError, UpstreamRefused
from gateway.commands.offset_target import parse_target
from gateway.commands.offsets import OffsetChange, OffsetsInDoubt, OffsetsRefused, _GroupOffsets
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafka_codecs.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_codecs.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

FIRST, END = 5, 100


class OneTopic:
    """The topic `t`, whose partitions have records from FIRST to END, all of an early time."""

    async def ask(
        self, _node_id: int, message: ListOffsetsRequest, _version: int | None = None
    ) -> ListOffsetsResponse:
        """The offsets of a time."""
        offsets = {EARLIEST: FIRST, LATEST: END}
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(
                            partition_index=wanted.partition_index,
                            offset=offsets.get(wanted.timestamp, -1),
                        )
                        for wanted in topic.partitions
                    ),
                )
                for topic in message.topics
            )
        )


def offsets_through(cluster: object) -> _GroupOffsets:
    """The offsets of a group whose coordinator is node 1."""
    return _GroupOffsets(cast("Cluster", cluster), "g", 1)


@pytest.mark.parametrize(
    ("target", "new"),
    [("-8", FIRST), ("-3", 7), ("+200", END), ("0", FIRST), ("2020-01-01", END)],
)
async def test_an_offset_outside_its_partition_becomes_the_nearer_end(
    target: str, new: int
) -> None:
    """A shift below offset 0 becomes the beginning. Only a time after all records is the end."""
    committed: Mapping[tuple[str, int], int] = {("t", 0): 10 if target == "-3" else 3}
    (change,) = await offsets_through(OneTopic()).plan_reset(
        {("t", 0): 1}, committed, parse_target(target)
    )
    assert change.new == new


class Coordinator:
    """Answers a commit and a deletion with these errors, by partition; or not at all."""

    def __init__(self, *error_codes: int, failure: UpstreamError | None = None) -> None:
        self.error_codes = error_codes
        self.failure = failure

    async def versions_of(self, _node_id: int) -> Mapping[ApiKey, tuple[int, int]]:
        """The versions of the two apis."""
        return {ApiKey.OFFSET_COMMIT: (0, 9), ApiKey.OFFSET_DELETE: (0, 0)}

    async def ask(
        self,
        _node_id: int,
        message: OffsetCommitRequest | OffsetDeleteRequest,
        _version: int | None = None,
    ) -> OffsetCommitResponse | OffsetDeleteResponse:
        """The answer."""
        if self.failure is not None:
            raise self.failure
        errors = tuple(enumerate(self.error_codes))
        if isinstance(message, OffsetCommitRequest):
            committed = tuple(
                OffsetCommitResponsePartition(partition_index=number, error_code=error_code)
                for number, error_code in errors
            )
            return OffsetCommitResponse(
                topics=(OffsetCommitResponseTopic(name="t", partitions=committed),)
            )
        deleted = tuple(
            OffsetDeleteResponsePartition(partition_index=number, error_code=error_code)
            for number, error_code in errors
        )
        return OffsetDeleteResponse(
            topics=(OffsetDeleteResponseTopic(name="t", partitions=deleted),)
        )


async def change(action: str, coordinator: Coordinator) -> None:
    """Reset or delete the offsets of two partitions."""
    offsets = offsets_through(coordinator)
    changes = [OffsetChange("t", number, 5, 0) for number in range(2)]
    await (offsets.commit(changes) if action == "reset" else offsets.delete(changes))


REFUSED = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


@pytest.mark.parametrize("action", ["reset", "deleted"])
async def test_a_change_that_is_partly_done_says_how_much(action: str) -> None:
    """A change that fails for every partition is refused as a whole."""
    await change(action, Coordinator(0, 0))
    with pytest.raises(OffsetsInDoubt, match=f"^1 of 2 are {action}; t:1: "):
        await change(action, Coordinator(0, REFUSED))
    with pytest.raises(OffsetsRefused, match=r"^t:0: "):
        await change(action, Coordinator(REFUSED, REFUSED))


@pytest.mark.parametrize("action", ["reset", "deleted"])
async def test_of_a_change_whose_answer_is_lost_nothing_is_claimed(action: str) -> None:
    """A connection that is refused sends nothing."""
    with pytest.raises(OffsetsInDoubt, match=r"not known whether they are .* --dry-run: closed"):
        await change(action, Coordinator(failure=UpstreamClosed("closed")))
    with pytest.raises(UpstreamRefused):
        await change(action, Coordinator(failure=UpstreamRefused("no TLS")))
