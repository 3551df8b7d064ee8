"""Events as log lines."""

import logging

import pytest
import structlog
from structlog.testing import capture_logs

from coordinator.interface.records import RemovalCause
from gateway.events import log_lines
from gateway.events.event import GatewayEvent
from gateway.events.log_lines import write_to_log
from gateway.events.member_events import MemberLeft, PartitionsStated


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


def test_an_event_below_the_level_is_not_put_into_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every join and many heartbeats state partitions, which the log normally leaves out."""
    logger = structlog.make_filtering_bound_logger(logging.INFO)
    monkeypatch.setattr(log_lines, "log", structlog.wrap_logger(None, wrapper_class=logger))
    monkeypatch.setattr(GatewayEvent, "fields", property(lambda _: pytest.fail("nobody reads it")))
    write_to_log(PartitionsStated(member_id="m", member_epoch=1, partitions={"foo": (0,)}), "g")
