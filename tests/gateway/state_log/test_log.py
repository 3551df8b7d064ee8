"""Every state log fulfils the same protocol."""

from gateway.state_log.log import StateLog, StateLogError
from gateway.state_log.memory import MemoryLog
from tests.support.hosted_groups import ScriptedLog


def test_every_log_fulfils_the_protocol() -> None:
    """mypy checks these assignments."""
    logs: list[StateLog] = [MemoryLog(), ScriptedLog()]
    assert len(logs) == 2


def test_its_error_has_a_reason() -> None:
    """A log line contains it unchanged."""
    assert str(StateLogError("the disk is full")) == "the disk is full"
