"""The lag of groups: a fold of commits and ends."""

import pytest

from gateway.board import lags as module
from gateway.board.lags import FRESH_MS, GroupLag, Lags
from gateway.events.event import GatewayEvent
from gateway.events.group_events import GroupDeleted, TopicsDeleted
from gateway.events.offset_events import (
    CommittedOffsets,
    FetchedOffset,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsFetched,
)
from tests.support.event_lines import enveloped


def committed(topic: str = "t", /, **offsets: int) -> OffsetsCommitted:
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


def told(lags: Lags, event: GatewayEvent, group: str = "g") -> None:
    """Let an event happen."""
    lags.take(enveloped(event, group_id=group))


def test_the_lag_is_the_sum_over_the_partitions_that_are_known() -> None:
    """As they were at the last look: commits since then go on while the known ends do not. What was
    consumed counts from the first commit on."""
    lags = Lags()
    told(lags, committed(p0=10, p1=20))
    assert lags.total("g", 0) is None
    turns = lags.take_turns(10)
    lags.take_ends(turns, {("t", 0): 15, ("t", 1): 20}, now_ms=1_000)
    assert lags.total("g", 1_000) == 5
    told(lags, committed(p0=14))
    group = lags.of("g")
    assert group is not None
    assert (lags.total("g", 1_000), group.consumed) == (5, 4)
    lags.take_ends(lags.take_turns(10), {("t", 0): 15, ("t", 1): 20}, now_ms=1_000)
    assert lags.total("g", 1_000) == 1
    assert group.of([("t", 0), ("other", 3)]) == 1
    assert group.of([("other", 3)]) is None
    assert lags.total("g", 1_001 + FRESH_MS) is None


def test_an_end_that_was_asked_for_before_the_commit_is_no_negative_lag() -> None:
    """The commit is newer."""
    group = GroupLag()
    group.commit(("t", 0), 10)
    group.end(("t", 0), 7)
    assert group.total == 0
    group.drop(("t", 0))
    assert (group.total, group.ends) == (0, {})


def test_a_start_counts_as_a_commit() -> None:
    """It is what the group has committed last. -1 is none."""
    lags = Lags()
    starts = (FetchedOffset(partition=0, offset=3), FetchedOffset(partition=1, offset=-1))
    told(lags, OffsetsFetched(member_id="m", starts={"t": starts}))
    assert lags.take_turns(10) == {"g": [("t", 0)]}


@pytest.mark.parametrize(
    "event", [TopicsDeleted(topics=("t",)), OffsetsDeleted(partitions={"t": (0,)}), GroupDeleted()]
)
def test_what_is_gone_has_no_lag(event: GatewayEvent) -> None:
    """Nor is it asked for, nor remembered."""
    lags = Lags()
    told(lags, committed(p0=1))
    told(lags, event)
    assert not lags.take_turns(10)
    assert lags.of("g") is None


def test_a_group_that_starts_without_offsets_is_not_remembered() -> None:
    """A client may begin any number of groups, and commit nothing."""
    lags = Lags()
    starts = (FetchedOffset(partition=0, offset=-1),)
    told(lags, OffsetsFetched(member_id="m", starts={"t": starts}))
    assert lags.of("g") is None
    assert not lags.take_turns(10)


def test_a_look_has_a_bound_and_groups_have_turns() -> None:
    """A large group takes several looks, and is known after the last; one that a step waits for
    comes first."""
    lags = Lags()
    told(lags, committed(p0=0, p1=0, p2=0), "large")
    told(lags, committed(p0=0), "small")
    told(lags, committed(p0=0), "urgent")
    seen = []
    for _ in range(3):
        turns = lags.take_turns(2, ["urgent"])
        assert sum(map(len, turns.values())) <= 2
        lags.take_ends(turns, {("t", each): 9 for each in range(3)}, now_ms=1)
        seen.append({name for name, some in turns.items() if some})
    assert all("urgent" in each for each in seen)
    for _ in range(4):
        lags.take_ends(lags.take_turns(2), {("t", each): 9 for each in range(3)}, now_ms=1)
    assert [lags.total(each, 1) for each in ("large", "small", "urgent")] == [27, 9, 9]


def test_the_partitions_in_memory_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group that has committed nothing for the longest time is forgotten."""
    monkeypatch.setattr(module, "PARTITIONS_MAX", 3)
    lags = Lags()
    told(lags, committed(p0=0, p1=0), "a")
    told(lags, committed(p0=0), "b")
    told(lags, committed(p0=1), "a")
    told(lags, committed(p0=0), "c")
    assert [lags.of(each) is None for each in "abc"] == [False, True, False]


def test_topics_without_subscribers_do_not_count() -> None:
    """Their partitions are not asked for. They count again once a member that subscribes to them
    has fetched their offsets, and while nobody is there."""
    subscribed: set[str] = set()
    lags = Lags(lambda _: subscribed)
    ends = {("t", 0): 15, ("old", 0): 100}
    told(lags, committed(p0=10))
    told(lags, committed("old", p0=0))
    lags.take_ends(lags.take_turns(10), ends, now_ms=1_000)
    assert lags.total("g", 1_000) == 105
    subscribed.add("t")
    turns = lags.take_turns(10)
    assert turns == {"g": [("t", 0)]}
    lags.take_ends(turns, ends, now_ms=1_000)
    assert lags.total("g", 1_000) == 5
    subscribed.add("old")
    told(lags, committed("old", p0=40))
    lags.take_ends(lags.take_turns(10), ends, now_ms=1_000)
    assert lags.total("g", 1_000) == 65
