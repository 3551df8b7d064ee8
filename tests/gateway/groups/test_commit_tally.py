"""Commits that the cluster has stored are told together, and nothing that went back is lost."""

from collections.abc import Mapping
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from gateway.events.event import GatewayEvent
from gateway.groups import commit_tally
from gateway.groups.commit_tally import CommitTally
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
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
from tests.support.hosted_groups import lone_request


class Tally(CommitTally):
    """What was told, with its group, and a clock that the test sets."""

    def __init__(self) -> None:
        self.at_ms = 100
        self.told: list[tuple[str | None, Mapping[str, Any]]] = []
        super().__init__(self._hear, lambda: self.at_ms)

    def _hear(self, event: GatewayEvent, group_id: str | None = None) -> None:
        self.told.append((group_id, event.fields))

    def commit(
        self,
        offsets: Mapping[int, int],
        *,
        member_id: str = "m",
        group_id: str = "orders",
        errors: Mapping[int, int] | None = None,
    ) -> None:
        """A member's commit of some partitions of foo, and the cluster's answer."""
        request = OffsetCommitRequest(
            group_id=group_id,
            member_id=member_id,
            topics=(
                OffsetCommitRequestTopic(
                    name="foo",
                    partitions=tuple(
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=at, committed_metadata=""
                        )
                        for partition, at in offsets.items()
                    ),
                ),
            ),
        )
        answer = OffsetCommitResponse(
            topics=(
                OffsetCommitResponseTopic(
                    name="foo",
                    partitions=tuple(
                        OffsetCommitResponsePartition(
                            partition_index=partition, error_code=(errors or {}).get(partition, 0)
                        )
                        for partition in offsets
                    ),
                ),
            )
        )
        self.note(lone_request(request, 9), answer)


def entry(partition: int, commits: int, first: int, lowest: int, last: int) -> dict[str, int]:
    """One partition of an event."""
    return {
        "partition": partition,
        "commits": commits,
        "first": first,
        "lowest": lowest,
        "last": last,
    }


def test_of_each_partition_the_first_the_lowest_and_the_last_offset_are_told() -> None:
    """What went back in between is seen."""
    tally = Tally()
    tally.commit({1: 50, 0: 10})
    tally.at_ms = 170
    tally.commit({0: 4})
    tally.commit({0: 12})
    tally.flush()
    assert tally.told == [
        (
            "orders",
            {
                "member_id": "m",
                "is_transactional": False,
                "from_ms": 100,
                "to_ms": 170,
                "offsets": {"foo": [entry(0, 3, 10, 4, 12), entry(1, 1, 50, 50, 50)]},
            },
        )
    ]
    tally.flush()
    assert len(tally.told) == 1


def test_each_member_of_each_group_has_an_event_of_its_own() -> None:
    """Who committed is what counts when an offset went back."""
    tally = Tally()
    tally.commit({0: 1})
    tally.commit({0: 2}, member_id="n")
    tally.commit({0: 3}, group_id="other")
    tally.flush()
    assert [(group_id, fields["member_id"]) for group_id, fields in tally.told] == [
        ("orders", "m"),
        ("orders", "n"),
        ("other", "m"),
    ]


def test_what_the_cluster_did_not_store_is_not_told() -> None:
    """Each partition has an answer of its own."""
    tally = Tally()
    tally.commit({0: 1}, errors={0: 14})
    tally.flush()
    assert tally.told == []
    tally.commit({0: 1, 1: 2}, errors={0: 14})
    tally.note(
        lone_request(HeartbeatRequest(group_id="orders", generation_id=1, member_id="m"), 4),
        HeartbeatResponse(),
    )
    tally.flush()
    assert tally.told[0][1]["offsets"] == {"foo": [entry(1, 1, 2, 2, 2)]}


def test_commits_of_a_transaction_are_told_apart() -> None:
    """It may be aborted yet."""
    tally = Tally()
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="orders",
        producer_id=1,
        producer_epoch=0,
        member_id="m",
        topics=(
            TxnOffsetCommitRequestTopic(
                name="foo",
                partitions=(
                    TxnOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=5, committed_metadata=None
                    ),
                ),
            ),
        ),
    )
    answer = TxnOffsetCommitResponse(
        topics=(
            TxnOffsetCommitResponseTopic(
                name="foo", partitions=(TxnOffsetCommitResponsePartition(partition_index=0),)
            ),
        )
    )
    tally.commit({0: 9})
    tally.note(lone_request(request, 4), answer)
    tally.flush()
    assert [fields["is_transactional"] for _group_id, fields in tally.told] == [False, True]


def test_an_interval_ends_early_when_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory has a limit."""
    monkeypatch.setattr(commit_tally, "PARTITIONS_MAX", 3)
    tally = Tally()
    tally.commit({0: 1, 1: 1})
    assert tally.told == []
    tally.commit({0: 2, 1: 2}, member_id="n")
    assert len(tally.told) == 2


async def test_an_interval_ends_by_itself(autojump_clock: MockClock) -> None:
    """Without another commit."""
    tally = Tally()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tally.run)
        tally.commit({0: 1})
        await trio.sleep(commit_tally.INTERVAL_S + 0.1)
        assert len(tally.told) == 1
        nursery.cancel_scope.cancel()
