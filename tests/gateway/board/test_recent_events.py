"""The events that a watcher can still get."""

import pytest
import trio
from trio.testing import MockClock

from coordinator.interface.records import RemovalCause
from gateway.board import recent_events
from gateway.board.recent_events import RecentEvents
from gateway.events.event import Envelope
from gateway.events.group_events import HostingStarted
from gateway.events.member_events import MemberFenced
from tests.gateway.board.test_lags import offsets_committed
from tests.support.event_lines import envelope_of


def event_of(sequence: int, group_id: str = "g", reason: str = "") -> Envelope:
    """An event of a group."""
    return envelope_of(HostingStarted(reason=reason), group_id=group_id, sequence=sequence)


def recent(*group_ids: str) -> RecentEvents:
    """An event of each of these groups."""
    events = RecentEvents()
    for position, group_id in enumerate(group_ids, 1):
        events.take(event_of(position, group_id))
    return events


def test_a_watcher_continues_after_the_last_event_it_has_seen() -> None:
    """The events have the lines of the files."""
    events = recent("a", "b", "a")
    assert [event.position for event in events.after(1, events_max=9)] == [2, 3]
    assert [event.position for event in events.after(0, events_max=2)] == [1, 2]
    assert events.after(3, events_max=9) == []
    assert events.after(1, events_max=1)[0].line == event_of(2, "b").line.encode()
    assert [event.position for event in events.latest("a", events_max=9)] == [1, 3]
    assert [event.position for event in events.latest(None, events_max=2)] == [2, 3]


def test_the_latest_events_leave_out_commits() -> None:
    """A group commits all the time. A watcher of every event still gets them."""
    events = recent("g")
    events.take(envelope_of(offsets_committed(p0=1), group_id="g"))
    assert [event.position for event in events.latest("g", events_max=9)] == [1]
    assert [event.position for event in events.after(0, events_max=9)] == [1, 2]


def test_the_oldest_events_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watcher that needs them can tell. One long event does not empty the memory."""
    monkeypatch.setattr(recent_events, "EVENTS_MAX", 2)
    events = recent("a", "b", "c")
    assert [events.has_after(position) for position in range(5)] == [False, True, True, True, False]
    assert [event.position for event in events.after(0, events_max=9)] == [2, 3]
    monkeypatch.setattr(recent_events, "BYTES_MAX", 10)
    events.take(event_of(4, "d", "x" * 1_000))
    assert [event.position for event in events.after(0, events_max=9)] == [4]


def test_the_memory_counts_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients choose names, and a character of theirs may take four bytes."""
    monkeypatch.setattr(recent_events, "BYTES_MAX", 10_000)
    events = recent()
    for position in range(1, 4):
        events.take(event_of(position, reason="\U0001f980" * 1_000))
    assert [event.position for event in events.after(0, events_max=9)] == [2, 3]


async def test_a_watcher_waits_for_the_next_event(autojump_clock: MockClock) -> None:
    """One that is behind does not wait."""
    events = recent("a")
    await events.wait_after(0)
    with trio.move_on_after(60) as limit:
        await events.wait_after(1)
    assert limit.cancelled_caught
    async with trio.open_nursery() as nursery:
        nursery.start_soon(events.wait_after, 1)
        await trio.testing.wait_all_tasks_blocked()
        events.take(event_of(2))


def test_members_that_are_removed_at_one_time_have_one_sentence() -> None:
    """The last one, also for a stream that has not sent the first one yet."""
    events = RecentEvents()
    for name in "ab":
        fenced = MemberFenced(member_id=name, cause=RemovalCause.SESSION_EXPIRED)
        events.take(envelope_of(fenced, group_id="g", at_ms=7))
    assert [event.sentence for event in events.after(0, events_max=9)] == [
        "",
        "a, b were removed: they sent no heartbeat within their sessions",
    ]
