"""New groups depend on the health of the state log."""

import pytest
import trio
from trio.testing import MockClock

from gateway.groups.log_health import TRY_AGAIN_S, LogHealth
from gateway.state_log.log import StateLogError

FULL = StateLogError("the disk is full")


async def test_an_unused_log_is_healthy(autojump_clock: MockClock) -> None:
    """Nothing shows otherwise."""
    LogHealth().check()


async def test_after_a_failed_write_groups_start_one_at_a_time(
    autojump_clock: MockClock,
) -> None:
    """Its write shows whether the log has recovered. The others are refused with the reason."""
    health = LogHealth()
    health.note(FULL)
    with pytest.raises(StateLogError, match="the disk is full"):
        health.check()
    await trio.sleep(TRY_AGAIN_S)
    health.check()
    with pytest.raises(StateLogError, match="the disk is full"):
        health.check()


async def test_a_successful_write_lets_all_groups_start(autojump_clock: MockClock) -> None:
    """The effect is immediate."""
    health = LogHealth()
    health.note(FULL)
    health.note(None)
    health.check()
    health.check()
