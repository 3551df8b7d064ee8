"""Every state log keeps the same promises."""

from gateway.state_log.log import StateLog, StateLogError
from gateway.state_log.memory import MemoryLog
from tests.support.hosted_groups import ScriptedLog


def test_every_log_is_one() -> None:
    """Checked by mypy: these lines would not pass otherwise."""
    logs: list[StateLog] = [MemoryLog(), ScriptedLog()]
    assert len(logs) == 2


def test_its_error_says_why() -> None:
    """It goes into a log line as it is."""
    assert str(StateLogError("the disk is full")) == "the disk is full"
