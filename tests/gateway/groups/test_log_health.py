"""Whether a group is begun, as far as the state log has shown."""

import pytest
import trio
from trio.testing import MockClock

from gateway.groups.log_health import TRY_AGAIN_S, LogHealth
from gateway.state_log.log import StateLogError

FULL = StateLogError("the disk is full")


async def test_a_log_that_was_never_written_is_well(autojump_clock: MockClock) -> None:
    """Nobody knows otherwise."""
    LogHealth().check()


async def test_after_a_failed_write_one_group_is_begun_at_a_time(
    autojump_clock: MockClock,
) -> None:
    """Its write tells whether the log is well again; the others are told why not."""
    health = LogHealth()
    health.note(FULL)
    with pytest.raises(StateLogError, match="the disk is full"):
        health.check()
    await trio.sleep(TRY_AGAIN_S)
    health.check()
    with pytest.raises(StateLogError, match="the disk is full"):
        health.check()


async def test_a_write_that_succeeds_lets_everybody_begin(autojump_clock: MockClock) -> None:
    """At once."""
    health = LogHealth()
    health.note(FULL)
    health.note(None)
    health.check()
    health.check()
