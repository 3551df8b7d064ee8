"""Events as log lines."""

from structlog.testing import capture_logs

from coordinator.interface.records import RemovalCause
from gateway.events.log_lines import write_to_log
from gateway.events.member_events import MemberLeft


def test_an_event_is_one_line_with_its_group() -> None:
    """It has a past-tense name and fields."""
    with capture_logs() as lines:
        write_to_log(MemberLeft(member_id="m", cause=RemovalCause.LEFT), "g")
    assert lines == [
        {
            "event": "member_left",
            "group_id": "g",
            "member_id": "m",
            "cause": "left",
            "log_level": "info",
        }
    ]
