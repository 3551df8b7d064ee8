"""The lag of groups: a fold of commits and ends."""

import pytest

from gateway.board import lags as module
from gateway.board.lags import ENDS_MAX, FRESH_MS, GroupLag, Lags
from gateway.events.event import GatewayEvent
from gateway.events.group_events import GroupDeleted, TopicsDeleted
from gateway.events.offset_events import (
    CommittedOffsets,
    FetchedOffset,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsFetched,
)
from tests.support.event_lines import envelope_of


def offsets_committed(topic: str = "t", /, **offsets: int) -> OffsetsCommitted:
    """Commits, such as p0=5."""
    return OffsetsCommitted(
        member_id="m",
        is_transactional=False,
        from_ms=0,
        to_ms=0,
        offsets={
            topic: tuple(
                CommittedOffsets(
                    partition=int(name[1:]), commits=1, first=offset, lowest=offset, last=offset
                )
                for name, offset in offsets.items()
            )
        },
    )


def observe_event(lags: Lags, event: GatewayEvent, group: str = "g") -> None:
    """Let an event happen."""
    lags.take(envelope_of(event, group_id=group))


def test_the_lag_is_the_sum_over_the_partitions_that_are_known() -> None:
    """The sum is as old as the last look: ends stay as they were while commits continue.
    Consumption counts from the first commit."""
    lags = Lags()
    observe_event(lags, offsets_committed(p0=10, p1=20))
    assert lags.total("g", 0) is None
    turns = lags.take_turns(10)
    lags.take_ends(turns, {("t", 0): 15, ("t", 1): 20}, now_ms=1_000)
    assert lags.total("g", 1_000) == 5
    observe_event(lags, offsets_committed(p0=14))
    group = lags.of("g")
    assert group is not None
    assert (lags.total("g", 1_000), group.consumed) == (5, 4)
    assert group.of([("t", 0)]) == 5, "those of partitions and members are of the same moment"
    assert (known := group.partition(("t", 0))) is not None
    assert (known.committed, known.end) == (10, 15)
    lags.take_ends(lags.take_turns(10), {("t", 0): 15, ("t", 1): 20}, now_ms=1_000)
    assert lags.total("g", 1_000) == 1
    assert group.of([("t", 0), ("other", 3)]) == 1
    assert group.of([("other", 3)]) is None
    assert lags.total("g", 1_001 + FRESH_MS) is None


def test_an_end_that_was_asked_for_before_the_commit_is_no_negative_lag() -> None:
    """The commit is newer."""
    group = GroupLag()
    group.commit(("t", 0), 10)
    group.end(("t", 0), 7, 0)
    assert group.total == 0
    group.drop(("t", 0))
    assert (group.total, group.ends) == (0, {})


def test_a_start_counts_as_a_commit() -> None:
    """A start offset is what the group last committed; -1 means none."""
    lags = Lags()
    starts = (FetchedOffset(partition=0, offset=3), FetchedOffset(partition=1, offset=-1))
    observe_event(lags, OffsetsFetched(member_id="m", starts={"t": starts}))
    assert lags.take_turns(10) == {"g": [("t", 0)]}


@pytest.mark.parametrize(
    "event", [TopicsDeleted(topics=("t",)), OffsetsDeleted(partitions={"t": (0,)}), GroupDeleted()]
)
def test_what_is_gone_has_no_lag(event: GatewayEvent) -> None:
    """What is gone is neither looked up nor remembered."""
    lags = Lags()
    observe_event(lags, offsets_committed(p0=1))
    observe_event(lags, event)
    assert not lags.take_turns(10)
    assert lags.of("g") is None


@pytest.mark.parametrize("partitions_max", [10, 1])
def test_a_partition_may_go_while_the_cluster_is_asked(partitions_max: int) -> None:
    """The partition may also go between two looks at a large group."""
    lags = Lags()
    observe_event(lags, offsets_committed(p0=1, p1=1))
    turns = lags.take_turns(partitions_max)
    observe_event(lags, OffsetsDeleted(partitions={"t": (1,)}))
    for taken in (turns, lags.take_turns(partitions_max)):
        lags.take_ends(taken, {("t", 0): 4, ("t", 1): 9}, now_ms=1_000)
    assert lags.total("g", 1_000) == 3


def test_a_group_that_starts_without_offsets_is_not_remembered() -> None:
    """A client may begin any number of groups, and commit nothing."""
    lags = Lags()
    starts = (FetchedOffset(partition=0, offset=-1),)
    observe_event(lags, OffsetsFetched(member_id="m", starts={"t": starts}))
    assert lags.of("g") is None
    assert not lags.take_turns(10)


def test_a_look_has_a_bound_and_groups_have_turns() -> None:
    """A large group takes several looks, and is known after the last; one that a step waits for
    comes first."""
    lags = Lags()
    observe_event(lags, offsets_committed(p0=0, p1=0, p2=0), "large")
    observe_event(lags, offsets_committed(p0=0), "small")
    observe_event(lags, offsets_committed(p0=0), "urgent")
    seen = []
    for _ in range(3):
        turns = lags.take_turns(2, ["urgent"])
        assert sum(map(len, turns.values())) <= 2
        lags.take_ends(turns, {("t", number): 9 for number in range(3)}, now_ms=1)
        seen.append({name for name, partitions in turns.items() if partitions})
    assert all("urgent" in groups for groups in seen)
    for _ in range(4):
        lags.take_ends(lags.take_turns(2), {("t", number): 9 for number in range(3)}, now_ms=1)
    assert [lags.total(group, 1) for group in ("large", "small", "urgent")] == [27, 9, 9]


def test_the_partitions_in_memory_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group that has committed nothing for the longest time is forgotten."""
    monkeypatch.setattr(module, "PARTITIONS_MAX", 3)
    lags = Lags()
    observe_event(lags, offsets_committed(p0=0, p1=0), "a")
    observe_event(lags, offsets_committed(p0=0), "b")
    observe_event(lags, offsets_committed(p0=1), "a")
    observe_event(lags, offsets_committed(p0=0), "c")
    assert [lags.of(group) is None for group in "abc"] == [False, True, False]


def test_topics_without_subscribers_do_not_count() -> None:
    """Their partitions are not asked for. They count again once a member that subscribes to them
    has fetched their offsets, and while nobody is there."""
    subscribed: set[str] = set()
    lags = Lags(lambda _: subscribed)
    ends = {("t", 0): 15, ("old", 0): 100}
    observe_event(lags, offsets_committed(p0=10))
    observe_event(lags, offsets_committed("old", p0=0))
    lags.take_ends(lags.take_turns(10), ends, now_ms=1_000)
    assert lags.total("g", 1_000) == 105
    subscribed.add("t")
    turns = lags.take_turns(10)
    assert turns == {"g": [("t", 0)]}
    lags.take_ends(turns, ends, now_ms=1_000)
    assert lags.total("g", 1_000) == 5
    subscribed.add("old")
    observe_event(lags, offsets_committed("old", p0=40))
    lags.take_ends(lags.take_turns(10), ends, now_ms=1_000)
    assert lags.total("g", 1_000) == 65


def observe_ends(group: GroupLag, *ends: int) -> None:
    """Look at the end of a partition every ten seconds."""
    for number, end in enumerate(ends):
        group.end(("t", 0), end, number * 10_000)


def behind(group: GroupLag) -> int | None:
    """How far the partition is behind, at most."""
    known = group.partition(("t", 0))
    assert known is not None
    return known.behind_ms


def commit_before_a_look(group: GroupLag, offset: int) -> None:
    """The latest look was just after a commit."""
    last = group.partition(("t", 0))
    assert last is not None
    group.commit(("t", 0), offset)
    group.end(("t", 0), last.end, last.at_ms)


def test_a_partition_is_behind_since_the_last_look_that_found_its_commit_at_the_end() -> None:
    """The next record has come since, so it is not older than that."""
    group = GroupLag()
    group.commit(("t", 0), 10)
    observe_ends(group, 8, 10, 12, 14, 16)
    assert behind(group) == 30_000
    commit_before_a_look(group, 13)
    assert behind(group) == 20_000
    commit_before_a_look(group, 16)
    assert behind(group) == 0


def test_a_lag_that_was_there_before_the_first_look_is_of_unknown_age() -> None:
    """The age stays unknown until the commits reach what a look has found."""
    group = GroupLag()
    group.commit(("t", 0), 5)
    observe_ends(group, 10, 12)
    assert behind(group) is None
    group.record_measurement(10_000)
    assert group.behind_ms is None
    commit_before_a_look(group, 11)
    assert behind(group) == 10_000
    group.record_measurement(10_000)
    assert group.behind_ms == 10_000


def test_a_look_that_misses_an_end_it_had_is_none() -> None:
    """The leader of a partition is away: the lag stays that of the look before, with its time."""
    lags = Lags()
    observe_event(lags, offsets_committed(p0=10, p1=10))
    lags.take_ends(lags.take_turns(10), {("t", 0): 15, ("t", 1): 15}, now_ms=1_000)
    lags.take_ends(lags.take_turns(10), {("t", 0): 20}, now_ms=2_000)
    shown = lags.show("g", 2_000)
    assert shown is not None
    assert (shown.records, shown.at_ms) == (10, 1_000)
    assert lags.show("g", 1_001 + FRESH_MS) is None
    lags.take_ends(lags.take_turns(10), {("t", 0): 20, ("t", 1): 20}, now_ms=3_000)
    shown = lags.show("g", 3_000)
    assert shown is not None
    assert (shown.records, shown.at_ms) == (20, 3_000)


def test_a_group_with_a_partition_of_unknown_end_is_behind_by_nobody_knows_how_much() -> None:
    """That partition may be the furthest."""
    lags = Lags()
    observe_event(lags, offsets_committed(p0=10, p1=10))
    lags.take_ends(lags.take_turns(10), {("t", 0): 10}, now_ms=1_000)
    shown = lags.show("g", 1_000)
    assert shown is not None
    assert shown.behind_ms is None


def test_the_ends_of_a_partition_that_are_remembered_reach_back_and_are_few() -> None:
    """The ends that are kept lie further apart, so the age is an upper limit all the same."""
    group = GroupLag()
    group.commit(("t", 0), 0)
    observe_ends(group, *range(1_000))
    assert len(group._end_history["t", 0]) <= ENDS_MAX
    assert behind(group) == 9_990_000
    commit_before_a_look(group, 500)
    assert 4_990_000 <= (behind(group) or 0) <= 9_990_000


def test_an_end_that_went_back_begins_a_new_count() -> None:
    """The topic was made again."""
    group = GroupLag()
    group.commit(("t", 0), 3)
    observe_ends(group, 3, 9, 5)
    assert behind(group) is None
