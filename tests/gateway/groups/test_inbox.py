"""Who comes out of a group's inbox first."""

import pytest
import trio
from trio.testing import MockClock

from coordinator.events import OffsetCommitEnded, TimePassed
from gateway.groups.clock import Clock
from gateway.groups.inbox import INBOX_MAX, Ask, Inbox
from gateway.groups.process_pauses import ProcessPauses


def some_ask() -> Ask:
    """A request that nobody decides here."""
    return Ask(make=lambda token, _: OffsetCommitEnded(commit=token), topic_names=frozenset())  # type: ignore[arg-type, return-value]


def some_inbox() -> Inbox:
    """Of a gateway that is never paused."""
    return Inbox(Clock(), ProcessPauses(Clock(), grace_max_ms=0))


async def test_what_happened_comes_before_who_asks(autojump_clock: MockClock) -> None:
    """A commit that ended may let go what a request wants."""
    inbox, ended, ask = some_inbox(), OffsetCommitEnded(commit=1), some_ask()
    await inbox.put(ask)
    inbox.note(ended)
    assert await inbox.next(None) is ended
    assert await inbox.next(None) is ask


async def test_who_asks_comes_before_time_as_long_as_it_is_not_for_ever(
    autojump_clock: MockClock,
) -> None:
    """Asks that are taken for a batch count as well: a full inbox, and then time passes."""
    inbox, due_ms = some_inbox(), Clock().now_ms()
    asks = [some_ask() for _ in range(INBOX_MAX)]
    for ask in asks:
        await inbox.put(ask)
    assert await inbox.next(due_ms) is asks[0]
    assert [inbox.next_ask() for _ in asks[1:]] == asks[1:]
    late = some_ask()
    await inbox.put(late)
    assert await inbox.next(due_ms) == TimePassed()
    assert await inbox.next(due_ms) is late


async def test_what_is_postponed_is_not_lost(autojump_clock: MockClock) -> None:
    """It comes first when its time has come; requests come out meanwhile, time does not pass."""
    inbox, ended, ask = some_inbox(), OffsetCommitEnded(commit=1), some_ask()
    inbox.note(ended)
    assert await inbox.next(None) is ended
    inbox.postpone(ended, 1_000)
    inbox.postpone(TimePassed(), 1_000)
    await inbox.put(ask)
    assert await inbox.next(Clock().now_ms()) is ask
    before = trio.current_time()
    assert await inbox.next(Clock().now_ms()) is None, "woken by the time, to look again"
    assert trio.current_time() - before == pytest.approx(1, abs=0.01)
    assert await inbox.next(Clock().now_ms()) is ended


async def test_nothing_goes_into_a_closed_one() -> None:
    """Whoever comes too late starts another task."""
    inbox = some_inbox()
    with inbox:
        pass
    with pytest.raises((trio.ClosedResourceError, trio.BrokenResourceError)):
        await inbox.put(some_ask())
