"""The clock of all groups."""

import time

import pytest
import trio
from trio.testing import MockClock

from gateway.groups.clock import Clock


async def test_it_starts_at_the_walls_time(autojump_clock: MockClock) -> None:
    """Milliseconds since the epoch: what a state log keeps has to mean something later."""
    assert Clock().now_ms() == pytest.approx(time.time() * 1000, abs=1_000)


async def test_a_step_of_the_wall_moves_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would expire every session, or none any more."""
    clock = Clock()
    before = clock.now_ms()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    await trio.sleep(2)
    assert clock.now_ms() == before + 2_000


@pytest.mark.parametrize("length_ms", [1, 3, 1_001, 45_000, 2_999_999])
async def test_after_sleeping_the_time_has_come(autojump_clock: MockClock, length_ms: int) -> None:
    """However floats round: a deadline that is almost due would be looked at again and again."""
    await trio.sleep(0.1234567)
    clock = Clock()
    await trio.sleep(0.7654321)
    at_ms = clock.now_ms() + length_ms
    await trio.sleep(clock.seconds_until(at_ms))
    assert clock.now_ms() == at_ms
    assert clock.seconds_until(at_ms) <= 0.0005


async def test_what_is_past_is_not_waited_for_and_what_is_never_is_for_ever(
    autojump_clock: MockClock,
) -> None:
    """No deadline at all is an infinite one."""
    clock = Clock()
    assert clock.seconds_until(clock.now_ms() - 5_000) == 0.0
    assert clock.seconds_until(None) == float("inf")
