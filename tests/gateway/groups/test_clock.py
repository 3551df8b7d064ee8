"""The clock of all groups."""

import time

import pytest
import trio
from trio.testing import MockClock

from gateway.groups.clock import Clock


async def test_it_starts_at_wall_clock_time(autojump_clock: MockClock) -> None:
    """Milliseconds since the epoch, because state logs store times."""
    assert Clock().now_ms() == pytest.approx(time.time() * 1000, abs=1_000)


async def test_a_step_of_the_wall_clock_has_no_effect(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that follows the step would expire every session, or none."""
    clock = Clock()
    before = clock.now_ms()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    await trio.sleep(2)
    assert clock.now_ms() == before + 2_000


@pytest.mark.parametrize("length_ms", [1, 3, 1_001, 45_000, 2_999_999])
async def test_a_deadline_is_due_after_the_sleep(autojump_clock: MockClock, length_ms: int) -> None:
    """Rounding must not leave a deadline almost due, because that would cause a busy loop."""
    await trio.sleep(0.1234567)
    clock = Clock()
    await trio.sleep(0.7654321)
    at_ms = clock.now_ms() + length_ms
    await trio.sleep(clock.seconds_until(at_ms))
    assert clock.now_ms() == at_ms
    assert clock.seconds_until(at_ms) <= 0.0005


async def test_past_deadlines_need_no_sleep_and_missing_ones_sleep_for_ever(
    autojump_clock: MockClock,
) -> None:
    """A missing deadline is infinite."""
    clock = Clock()
    assert clock.seconds_until(clock.now_ms() - 5_000) == 0.0
    assert clock.seconds_until(None) == float("inf")
