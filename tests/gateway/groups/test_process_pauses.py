"""Pauses of the process postpone the members' timeouts."""

import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.groups.clock import Clock
from gateway.groups.process_pauses import LOOK_INTERVAL_S, PAUSE_MS, ProcessPauses

GRACE_MAX_MS = 15_000
STEPS_A_LOOK = 4


async def there_for(clock: MockClock, length_s: float) -> None:
    """Let time pass while all tasks run."""
    for _ in range(round(length_s * STEPS_A_LOOK / LOOK_INTERVAL_S)):
        clock.jump(LOOK_INTERVAL_S / STEPS_A_LOOK)
        await wait_all_tasks_blocked()


async def test_a_running_process_postpones_nothing(mock_clock: MockClock) -> None:
    """Rare deadlines do not count as a pause."""
    async with trio.open_nursery() as nursery:
        clock = Clock()
        pauses = ProcessPauses(clock, grace_max_ms=GRACE_MAX_MS)
        nursery.start_soon(pauses.run)
        await there_for(mock_clock, 60)
        assert pauses.not_before_ms() <= clock.now_ms() - 60_000
        nursery.cancel_scope.cancel()


async def test_a_pause_is_noticed_by_the_first_task_that_runs(mock_clock: MockClock) -> None:
    """The task of a group may run before the watching task. One line reports the pause."""
    clock = Clock()
    pauses = ProcessPauses(clock, grace_max_ms=GRACE_MAX_MS)
    mock_clock.jump(PAUSE_MS / 1000)
    with capture_logs() as lines:
        assert pauses.not_before_ms() == clock.now_ms() + PAUSE_MS
        assert pauses.not_before_ms() == clock.now_ms() + PAUSE_MS
    assert [(line["event"], line["length_ms"]) for line in lines] == [("gateway_paused", PAUSE_MS)]


async def test_a_long_pause_counts_like_a_restart(mock_clock: MockClock) -> None:
    """Clients have reconnected by then."""
    clock = Clock()
    pauses = ProcessPauses(clock, grace_max_ms=GRACE_MAX_MS)
    mock_clock.jump(3_600)
    assert pauses.not_before_ms() == clock.now_ms() + GRACE_MAX_MS


async def test_repeated_pauses_do_not_stop_time(mock_clock: MockClock) -> None:
    """The process ran for longer than it paused, so dead members time out in the end."""
    async with trio.open_nursery() as nursery:
        clock = Clock()
        pauses = ProcessPauses(clock, grace_max_ms=GRACE_MAX_MS)
        nursery.start_soon(pauses.run)
        for _ in range(10):
            mock_clock.jump(5)
            await there_for(mock_clock, 5 + 3 * LOOK_INTERVAL_S)
            assert pauses.not_before_ms() < clock.now_ms()
        nursery.cancel_scope.cancel()
