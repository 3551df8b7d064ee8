"""How long members are not timed out after we were away."""

import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.groups.clock import Clock
from gateway.groups.process_pauses import LOOK_INTERVAL_S, PAUSE_MS, ProcessPauses

GRACE_MAX_MS = 15_000
STEPS_A_LOOK = 4


async def there_for(clock: MockClock, length_s: float) -> None:
    """Let time go by, and everybody run all the while."""
    for _ in range(round(length_s * STEPS_A_LOOK / LOOK_INTERVAL_S)):
        clock.jump(LOOK_INTERVAL_S / STEPS_A_LOOK)
        await wait_all_tasks_blocked()


async def test_who_was_there_all_the_time_waits_for_nobody(mock_clock: MockClock) -> None:
    """However rarely a deadline is due."""
    async with trio.open_nursery() as nursery:
        clock = Clock()
        pauses = ProcessPauses(clock, grace_max_ms=GRACE_MAX_MS)
        nursery.start_soon(pauses.run)
        await there_for(mock_clock, 60)
        assert pauses.not_before_ms() <= clock.now_ms() - 60_000
        nursery.cancel_scope.cancel()


async def test_a_pause_is_made_up_for_by_whoever_sees_it_first(mock_clock: MockClock) -> None:
    """The task of a group may run before the one that looks all the time. One line says so."""
    clock = Clock()
    pauses = ProcessPauses(clock, grace_max_ms=GRACE_MAX_MS)
    mock_clock.jump(PAUSE_MS / 1000)
    with capture_logs() as lines:
        assert pauses.not_before_ms() == clock.now_ms() + PAUSE_MS
        assert pauses.not_before_ms() == clock.now_ms() + PAUSE_MS
    assert [(line["event"], line["length_ms"]) for line in lines] == [("gateway_paused", PAUSE_MS)]


async def test_a_long_pause_is_made_up_for_as_a_restart_is(mock_clock: MockClock) -> None:
    """Clients are back by then."""
    clock = Clock()
    pauses = ProcessPauses(clock, grace_max_ms=GRACE_MAX_MS)
    mock_clock.jump(3_600)
    assert pauses.not_before_ms() == clock.now_ms() + GRACE_MAX_MS


async def test_one_pause_after_another_does_not_stop_time(mock_clock: MockClock) -> None:
    """There for longer than away: the dead are timed out at last."""
    async with trio.open_nursery() as nursery:
        clock = Clock()
        pauses = ProcessPauses(clock, grace_max_ms=GRACE_MAX_MS)
        nursery.start_soon(pauses.run)
        for _ in range(10):
            mock_clock.jump(5)
            await there_for(mock_clock, 5 + 3 * LOOK_INTERVAL_S)
            assert pauses.not_before_ms() < clock.now_ms()
        nursery.cancel_scope.cancel()
