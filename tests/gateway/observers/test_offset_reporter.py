"""Fetches and commits of members are reported together and in time, and no offset that went back is
lost."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from coordinator.interface.records import RemovalCause
from coordinator.interface.volatile_records import ClassicPhase
from gateway.events.event import GatewayEvent
from gateway.events.group_events import GroupConverted, GroupStateChanged, TopicsDeleted
from gateway.events.member_events import (
    GrantEnded,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    PartitionsAssigned,
    PartitionsRevoked,
)
from gateway.observers import offset_reporter
from gateway.observers.offset_reporter import OffsetReporter
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.offset_commit import (
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
from kafka_codecs.offset_fetch import (
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kafka_codecs.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.support.commits import commit_of, transactional_commit_of
from tests.support.hosted_groups import lone_request

ENDED = partial(GrantEnded, cause="revoked")


ORIGIN = ("requested_ms", "first_sequence", "last_sequence", "topic_ids")


class GroupStats(OffsetReporter):
    """The reports with their groups, and a clock that the test sets."""

    def __init__(self) -> None:
        self.at_ms = 100
        self.told: list[tuple[str | None, Mapping[str, Any]]] = []
        """The events, without the fields that say where in the group's history they belong."""
        self.origins: list[Mapping[str, Any]] = []
        """These fields."""
        self.sequence = 0
        super().__init__(
            self._hear,
            lambda: self.at_ms,
            time_s=lambda: self.at_ms / 1000,
            sequence_of=lambda _group_id: self.sequence,
            topic_ids=lambda names: {name: f"id of {name}" for name in names},
        )

    def _hear(
        self, event: GatewayEvent, group_id: str | None = None, owner: Hashable | None = None
    ) -> None:
        fields = event.fields
        self.origins.append({name: fields.pop(name) for name in ORIGIN if name in fields})
        self.told.append((group_id, fields))

    def commit(
        self,
        offsets: Mapping[int, int],
        *,
        member_id: str = "m",
        group_id: str = "orders",
        errors: Mapping[int, int] | None = None,
        at_s: float = 0.0,
    ) -> None:
        """A member's commit of some partitions of foo, and the cluster's answer."""
        request = commit_of({"foo": offsets}, group_id=group_id, member_id=member_id)
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
        self.record_commit(replace(lone_request(request, 9), at_s=at_s), answer)

    def commit_in_transaction(
        self, offsets: Mapping[int, int], *, group_id: str = "orders"
    ) -> None:
        """A commit of m in the transaction of producer t."""
        request = transactional_commit_of({"foo": offsets}, group_id=group_id, member_id="m")
        partitions = tuple(
            TxnOffsetCommitResponsePartition(partition_index=partition) for partition in offsets
        )
        topic = TxnOffsetCommitResponseTopic(name="foo", partitions=partitions)
        self.record_commit(lone_request(request, 4), TxnOffsetCommitResponse(topics=(topic,)))

    def fetch(
        self,
        offsets: Mapping[int, int],
        *,
        member_id: str = "m",
        group_id: str = "orders",
        errors: Mapping[int, int] | None = None,
    ) -> None:
        """A member's fetched offsets of some partitions of foo."""
        topic = OffsetFetchResponseTopic(
            name="foo",
            partitions=tuple(
                OffsetFetchResponsePartition(
                    partition_index=partition,
                    committed_offset=at,
                    metadata="",
                    error_code=(errors or {}).get(partition, 0),
                )
                for partition, at in offsets.items()
            ),
        )
        self.record_fetch(group_id, member_id, (topic,))

    def make_way(self, group_id: str, events: Iterable[GatewayEvent]) -> Sequence[GatewayEvent]:
        """Report immediately, as the group does."""
        ended = super().make_way(group_id, events)
        for event in ended:
            self._hear(event, group_id)
        return ended

    @property
    def members(self) -> list[tuple[str | None, str]]:
        """The group and member of each event."""
        return [(group_id, fields["member_id"]) for group_id, fields in self.told]


def entry(partition: int, commits: int, first: int, lowest: int, last: int) -> dict[str, int]:
    """One partition of an event."""
    return {
        "partition": partition,
        "commits": commits,
        "first": first,
        "lowest": lowest,
        "last": last,
    }


def test_the_first_lowest_and_last_offset_of_a_partition_are_reported() -> None:
    """The lowest reveals an offset that went back in between."""
    reporter = GroupStats()
    reporter.commit({1: 50, 0: 10})
    reporter.at_ms = 170
    reporter.commit({0: 4})
    reporter.commit({0: 12})
    reporter.flush()
    assert reporter.told == [
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
    reporter.flush()
    assert len(reporter.told) == 1


def test_what_is_committed_and_not_reported_yet_can_be_asked_for() -> None:
    """A transaction under way has committed nothing yet."""
    stats = GroupStats()
    stats.commit({0: 5, 1: 7})
    stats.commit({0: 9})
    stats.commit_in_transaction({2: 3})
    assert stats.find_unreported("orders") == {("foo", 0): 9, ("foo", 1): 7}
    stats.record_transaction_end("t", is_committed=True)
    assert stats.find_unreported("orders")["foo", 2] == 3
    stats.flush()
    assert not stats.find_unreported("orders")


def test_each_member_of_each_group_has_its_own_event() -> None:
    """If an offset went back, the committer matters."""
    reporter = GroupStats()
    reporter.commit({0: 1})
    reporter.commit({0: 2}, member_id="n")
    reporter.commit({0: 3}, group_id="other")
    reporter.flush()
    assert [(group_id, fields["member_id"]) for group_id, fields in reporter.told] == [
        ("orders", "m"),
        ("orders", "n"),
        ("other", "m"),
    ]


def test_a_commit_for_a_partition_ends_the_commits_of_its_former_owner() -> None:
    """While the cluster serves a group, no event says that a partition has moved. Commits of both
    at the same time would look like an offset that went back."""
    reporter = GroupStats()
    reporter.commit({0: 1, 1: 1})
    reporter.at_ms += 10
    reporter.commit({0: 2}, member_id="n")
    ((_group_id, event),) = reporter.told
    assert (event["member_id"], event["to_ms"]) == ("m", 100)
    reporter.commit({1: 2})
    reporter.commit({0: 3}, member_id="n")
    assert len(reporter.told) == 1
    reporter.flush()
    assert [fields["member_id"] for _group_id, fields in reporter.told] == ["m", "n", "m"]


def test_a_partition_may_come_back_at_once() -> None:
    """The commits of both owners end, each time."""
    reporter = GroupStats()
    for member_id in ("m", "n", "m", "n"):
        reporter.commit({0: 1}, member_id=member_id)
    assert [fields["member_id"] for _group_id, fields in reporter.told] == ["m", "n", "m"]


def test_commits_that_the_cluster_did_not_store_are_not_reported() -> None:
    """Each partition has its own answer."""
    reporter = GroupStats()
    reporter.commit({0: 1}, errors={0: 14})
    reporter.flush()
    assert reporter.told == []
    reporter.commit({0: 1, 1: 2}, errors={0: 14})
    reporter.record_commit(
        lone_request(HeartbeatRequest(group_id="orders", generation_id=1, member_id="m"), 4),
        HeartbeatResponse(),
    )
    reporter.flush()
    assert reporter.told[0][1]["offsets"] == {"foo": [entry(1, 1, 2, 2, 2)]}


def test_transactional_commits_are_reported_separately() -> None:
    """Their transaction may still abort."""
    reporter = GroupStats()
    reporter.commit({0: 9})
    reporter.commit_in_transaction({0: 5})
    reporter.flush()
    assert [fields["is_transactional"] for _group_id, fields in reporter.told] == [False, True]


def test_committed_transactions_are_summed_up_with_their_end() -> None:
    """A producer may end twenty transactions a second. The end follows the commits."""
    reporter = GroupStats()
    for offset in (5, 6, 7):
        reporter.commit_in_transaction({0: offset})
        reporter.record_transaction_end("t", is_committed=True)
    assert reporter.told == []
    reporter.flush()
    committed, ended = (fields for _group_id, fields in reporter.told)
    assert committed["offsets"] == {"foo": [entry(0, 3, 5, 5, 7)]}
    assert ended == {"transactional_id": "t", "is_committed": True, "member_id": "m"}
    reporter.record_transaction_end("t", is_committed=True)  # without offsets
    reporter.flush()
    assert len(reporter.told) == 2


def test_an_aborted_transaction_is_reported_by_itself() -> None:
    """Its offsets never counted, unlike those of the transactions before."""
    reporter = GroupStats()
    reporter.commit_in_transaction({0: 5})
    reporter.record_transaction_end("t", is_committed=True)
    reporter.commit_in_transaction({0: 9})
    reporter.record_transaction_end("t", is_committed=False)
    reporter.flush()
    shown = [
        fields.get("offsets", fields.get("is_committed")) for _group_id, fields in reporter.told
    ]
    assert shown == [
        {"foo": [entry(0, 1, 5, 5, 5)]},
        True,
        {"foo": [entry(0, 1, 9, 9, 9)]},
        False,
    ]


def test_a_transaction_that_lasts_ends_after_its_commits() -> None:
    """The commits were reported with an earlier interval. Each group of the transaction has its
    end."""
    reporter = GroupStats()
    for group_id in ("orders", "others"):
        reporter.commit_in_transaction({0: 5}, group_id=group_id)
    reporter.flush()
    reporter.record_transaction_end("t", is_committed=True)
    assert [(group_id, "offsets" in fields) for group_id, fields in reporter.told] == [
        ("orders", True),
        ("others", True),
        ("orders", False),
        ("others", False),
    ]


def test_transactions_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One producer cannot fill the memory with groups."""
    monkeypatch.setattr(offset_reporter, "GROUPS_PER_TRANSACTION_MAX", 2)
    reporter = GroupStats()
    for number in range(5):
        reporter.commit_in_transaction({0: 5}, group_id=f"g{number}")
    reporter.flush()
    reporter.record_transaction_end("t", is_committed=False)
    assert [fields for _group_id, fields in reporter.told if "offsets" not in fields] == [
        {"transactional_id": "t", "is_committed": False, "member_id": "m"}
    ] * 2


def test_a_full_interval_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is limited."""
    monkeypatch.setattr(offset_reporter, "PARTITIONS_MAX", 3)
    reporter = GroupStats()
    reporter.commit({0: 1, 1: 1})
    reporter.make_way("orders", [member_left("m")])
    assert len(reporter.told) == 1
    reporter.commit({0: 1}, group_id="other")
    assert len(reporter.told) == 1
    reporter.commit({0: 2, 1: 2}, member_id="n")
    assert len(reporter.told) == 3
    reporter.commit({0: 1, 1: 1})
    assert len(reporter.told) == 3


def test_a_members_first_fetch_is_its_start() -> None:
    """The start is reported immediately. Later fetches of a committing member return its own
    commits."""
    reporter = GroupStats()
    reporter.fetch({1: -1, 0: 7, 2: -1}, errors={2: 14})
    expected = {"member_id": "m", "starts": {"foo": [start_of(0, 7), start_of(1, -1)]}}
    assert reporter.told == [("orders", expected)]
    reporter.fetch({0: 9, 1: 3})
    assert len(reporter.told) == 1
    reporter.fetch({0: 9, 2: 8})
    assert reporter.told[1:] == [
        ("orders", {"member_id": "m", "starts": {"foo": [start_of(2, 8)]}})
    ]


def test_a_topic_without_new_starts_is_not_named() -> None:
    """The fetch named it again together with another."""
    reporter = GroupStats()
    reporter.fetch({0: 7})
    partition = OffsetFetchResponsePartition(partition_index=0, committed_offset=7, metadata="")
    topics = [OffsetFetchResponseTopic(name=n, partitions=(partition,)) for n in ("foo", "bar")]
    reporter.record_fetch("orders", "m", topics)
    assert reporter.told[1:] == [
        ("orders", {"member_id": "m", "starts": {"bar": [start_of(0, 7)]}})
    ]


def test_a_failed_fetch_is_not_reported() -> None:
    """The member does not start there."""
    reporter = GroupStats()
    reporter.fetch({0: -1}, errors={0: 14})
    assert reporter.told == []


def test_each_member_of_each_group_has_its_own_starts() -> None:
    """Several members fetch the same partition in turn."""
    reporter = GroupStats()
    reporter.fetch({0: 7})
    reporter.fetch({0: 7}, member_id="n")
    reporter.fetch({0: 7}, group_id="other")
    assert len(reporter.told) == 3


def test_starts_beyond_the_limit_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is limited, so some starts are reported twice."""
    monkeypatch.setattr(offset_reporter, "PARTITIONS_MAX", 2)
    reporter = GroupStats()
    reporter.fetch({0: 7, 1: 7})
    reporter.fetch({0: 7, 1: 7})
    assert len(reporter.told) == 1
    reporter.fetch({2: 7})
    reporter.fetch({0: 7, 1: 7})
    assert len(reporter.told) == 3


def start_of(partition: int, offset: int) -> dict[str, int]:
    """One partition of an event."""
    return {"partition": partition, "offset": offset}


def member_left(member_id: str) -> MemberLeft:
    """A member's departure."""
    return MemberLeft(member_id=member_id, cause=RemovalCause.LEFT)


def partitions_moved(
    event: Callable[..., PartitionsAssigned | GrantEnded | PartitionsRevoked],
) -> GatewayEvent:
    """Events about partitions of m."""
    return event(member_id="m", member_epoch=2, partitions={"foo": (0,)})


MOVES = [
    member_left("m"),
    MemberFenced(member_id="m", cause=RemovalCause.SESSION_EXPIRED),
    MemberReplaced(member_id="m", replaced_by="n"),
    partitions_moved(ENDED),
    partitions_moved(PartitionsAssigned),
]


@pytest.mark.parametrize("event", MOVES, ids=lambda event: event.name)
def test_a_members_commits_are_reported_before_its_partitions_move(event: GatewayEvent) -> None:
    """Reports of clients that may be that member are included. Other members' intervals
    continue."""
    reporter = GroupStats()
    for member_id, partition in (("", 0), ("n", 1), ("", 0), ("m", 0)):
        reporter.commit({partition: 5}, member_id=member_id)
    reporter.told.clear()
    reporter.commit({0: 5}, group_id="other")
    reporter.make_way("orders", [event])
    assert reporter.members == [("orders", "m"), ("orders", "")]
    reporter.flush()
    assert reporter.members[2:] == [("orders", "n"), ("other", "m")]


@pytest.mark.parametrize("event", MOVES, ids=lambda event: event.name)
def test_a_fetch_after_partitions_moved_is_a_new_start(event: GatewayEvent) -> None:
    """A member that lost a partition may get it back after another member's commits."""
    reporter = GroupStats()
    for member_id in ("n", "", "m"):
        reporter.fetch({0: 5}, member_id=member_id)
    reporter.told.clear()
    reporter.make_way("orders", [event])
    for member_id in ("n", "", "m"):
        reporter.fetch({0: 9}, member_id=member_id)
    assert reporter.members == [("orders", ""), ("orders", "m")]


@pytest.mark.parametrize(
    "event",
    [
        GroupConverted(
            direction="classic->consumer", is_live=True, group_epoch=1, members=1, cause=""
        ),
        GroupStateChanged(
            from_state=ClassicPhase.STABLE,
            to_state=ClassicPhase.PREPARING_REBALANCE,
            generation=1,
        ),
        TopicsDeleted(topics=("foo",)),
    ],
    ids=lambda event: event.name,
)
def test_all_members_commits_are_reported_before_the_group_moves_on(event: GatewayEvent) -> None:
    """A classic group's events do not name the owners of released partitions. Commits for a deleted
    topic would count for one that is created under its name."""
    reporter = GroupStats()
    reporter.commit({0: 5})
    reporter.commit({0: 5}, member_id="n")
    reporter.commit({0: 5}, group_id="other")
    reporter.make_way("orders", [event])
    assert [fields["member_id"] for _group_id, fields in reporter.told] == ["m", "n"]
    reporter.fetch({0: 5})
    reporter.make_way("orders", [event])
    reporter.fetch({0: 5})
    assert len(reporter.told) == 4


def test_a_reset_is_reported_at_once() -> None:
    """A process that is killed reports nothing later. What else comes from outside within the
    interval is combined: consumers that use assign() commit all the time."""
    reporter = GroupStats()
    reporter.commit({0: 5, 1: 9}, member_id="")
    ((_group_id, event),) = reporter.told
    assert event["offsets"] == {"foo": [entry(0, 1, 5, 5, 5), entry(1, 1, 9, 9, 9)]}
    reporter.at_ms += 10
    for offset in (6, 7):
        reporter.commit({0: offset}, member_id="")
    assert len(reporter.told) == 1
    reporter.flush()
    _group_id, event = reporter.told[1]
    assert event["offsets"] == {"foo": [entry(0, 2, 6, 6, 7)]}
    assert event["from_ms"] == event["to_ms"] == reporter.at_ms
    reporter.flush()
    assert len(reporter.told) == 2
    reporter.commit({0: 5}, member_id="")
    assert len(reporter.told) == 3


def test_other_events_do_not_end_an_interval() -> None:
    """A member that must revoke partitions commits until it does."""
    reporter = GroupStats()
    reporter.commit({0: 5})
    reporter.fetch({0: 5})
    reporter.told.clear()
    joined = MemberJoined(
        member_id="m", client_id="", client_host="", instance_id=None, protocol="classic"
    )
    reporter.make_way("orders", [partitions_moved(PartitionsRevoked), joined])
    reporter.make_way("unknown", [partitions_moved(ENDED)])
    reporter.fetch({0: 5})
    assert reporter.told == []


async def test_an_interval_ends_without_further_commits(autojump_clock: MockClock) -> None:
    """The interval ends after its time, or with the gateway."""
    reporter = GroupStats()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reporter.run)
        reporter.commit({0: 1})
        await trio.sleep(offset_reporter.INTERVAL_S + 0.1)
        assert len(reporter.told) == 1
        reporter.commit({0: 2})
        nursery.cancel_scope.cancel()
    assert len(reporter.told) == 2


def test_deleted_offsets_are_reported_at_once() -> None:
    """Only those that the cluster deleted: the next owner finds no offset."""
    reporter = GroupStats()
    answered = {"t": {2: 0, 0: 0, 1: 86}, "kept": {0: 86}}
    topics = tuple(
        OffsetDeleteResponseTopic(
            name=name,
            partitions=tuple(
                OffsetDeleteResponsePartition(partition_index=number, error_code=code)
                for number, code in codes.items()
            ),
        )
        for name, codes in answered.items()
    )
    request = lone_request(OffsetDeleteRequest(group_id="g", topics=()), 0)
    reporter.record_delete(request, OffsetDeleteResponse(topics=topics))
    reporter.record_delete(
        request, OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND, topics=topics)
    )
    assert reporter.told == [("g", {"partitions": {"t": [0, 2]}})]


def test_commits_name_their_place_in_the_sequence_of_the_group() -> None:
    """The first and the last store of the interval, the time of the first request, and the ids of
    the topics."""
    reporter = GroupStats()
    for at_ms, sequence in ((100, 4), (150, 6), (180, 9)):
        reporter.at_ms, reporter.sequence = at_ms, sequence
        reporter.commit({0: at_ms}, at_s=(at_ms - 40) / 1000)
    reporter.at_ms, reporter.sequence = 5_000, 12
    reporter.flush()
    assert reporter.origins == [
        {
            "requested_ms": 60,
            "first_sequence": 4,
            "last_sequence": 9,
            "topic_ids": {"foo": "id of foo"},
        }
    ]
