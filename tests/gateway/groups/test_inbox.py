"""The order of a group's inbox."""

import pytest
import trio
from trio.testing import MockClock

from coordinator.interface.events import OffsetCommitEnded, TimePassed
from gateway.groups.clock import Clock
from gateway.groups.inbox import INBOX_MAX, Ask, Inbox
from gateway.groups.process_pauses import ProcessPauses


def some_ask() -> Ask:
    """A request that the test never decides."""
    return Ask(make=lambda token, _: OffsetCommitEnded(commit=token), topic_names=frozenset())  # type: ignore[arg-type, return-value]


def some_inbox() -> Inbox:
    """The state of a gateway without pauses."""
    return Inbox(Clock(), ProcessPauses(Clock(), grace_max_ms=0))


async def test_events_precede_requests(autojump_clock: MockClock) -> None:
    """The end of a commit may free partitions for a request."""
    inbox, ended, ask = some_inbox(), OffsetCommitEnded(commit=1), some_ask()
    await inbox.put(ask)
    inbox.note(ended)
    assert await inbox.next(None) is ended
    assert await inbox.next(None) is ask


async def test_requests_precede_time_for_a_limited_number(
    autojump_clock: MockClock,
) -> None:
    """Requests that are gathered for a batch count as well. After a full inbox, time passes."""
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


async def test_a_postponed_event_is_not_lost(autojump_clock: MockClock) -> None:
    """It comes first once it is due. Meanwhile requests come out, and time does not pass."""
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


async def test_a_closed_inbox_accepts_nothing() -> None:
    """A later request starts another task."""
    inbox = some_inbox()
    with inbox:
        pass
    with pytest.raises((trio.ClosedResourceError, trio.BrokenResourceError)):
        await inbox.put(some_ask())
