"""Log lines: content, format, and forbidden content."""

import errno
import io
import json
import logging

import pytest
import structlog
from structlog.testing import capture_logs

from coordinator.interface.records import RemovalCause
from gateway import logs
from gateway.events.event import GatewayEvent
from gateway.events.group_events import GroupLoaded, TargetComputed
from gateway.events.member_events import MemberLeft, MemberSnapshot, PartitionsStated


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_a_json_line_has_time_level_event_and_context() -> None:
    """Machines read one object per line. Times are UTC."""
    stream = io.StringIO()
    logs.configure("json", stream=stream)
    with structlog.contextvars.bound_contextvars(connection_id=7):
        structlog.get_logger().info("group_epoch_bumped", group_id="g", group_epoch=8)
    line = json.loads(stream.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "group_epoch_bumped",
        "level": "info",
        "group_id": "g",
        "group_epoch": 8,
        "connection_id": 7,
    }


def test_the_lines_of_a_process_of_a_fleet_say_which_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lines still say so after SIGHUP has changed the format, which configures the log
    again."""
    monkeypatch.setattr(logs, "_PROCESS_FIELDS", {})
    stream = io.StringIO()
    logs.name_process(3)
    logs.configure("json", stream=stream)
    structlog.get_logger().info("gateway_started")
    assert json.loads(stream.getvalue())["slot"] == 3


@pytest.mark.parametrize(
    ("stream", "no_color", "coloured"),
    [(io.StringIO(), "", False), (Terminal(), "", True), (Terminal(), "1", False)],
)
def test_colours_are_for_terminals(
    stream: io.StringIO, no_color: str, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files, pipes and NO_COLOR get plain text (no-color.org)."""
    monkeypatch.setenv("NO_COLOR", no_color)
    logs.configure(stream=stream)
    structlog.get_logger().info("member_joined", member_id="m")
    assert ("\x1b[" in stream.getvalue()) is coloured
    assert "member_joined" in stream.getvalue()


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_client_data_cannot_control_the_terminal(log_format: logs.LogFormat) -> None:
    """This covers values, nested values and tracebacks. A value cannot add a line."""
    stream = Terminal()
    evil = "a\x1b]0;owned\x07\x9b2J\u202eb\nc"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("NO_COLOR", "1")
        logs.configure(log_format, stream=stream)
    structlog.get_logger().info("member_joined", group_id=evil, topics=(evil,))
    assert len(stream.getvalue().splitlines()) == 1
    try:
        raise ValueError(evil)  # noqa: TRY301
    except ValueError:
        structlog.get_logger().exception("connection_failed")
    for unseen in "\x1b\x07\x9b\u202e":
        assert unseen not in stream.getvalue()
    assert "owned" in stream.getvalue()


def test_a_line_that_cannot_be_written_is_dropped() -> None:
    """The terminal has gone, or the disk is full. Neither may end the program."""

    class Broken(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(errno.EIO, "Input/output error")

        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    logs.configure(stream=Broken())
    structlog.get_logger().info("member_joined", member_id="m")


def test_lines_below_the_level_are_dropped() -> None:
    """The level is the lowest that is written."""
    stream = io.StringIO()
    logs.configure(log_level="warning", stream=stream)
    structlog.get_logger().info("unheard")
    structlog.get_logger().warning("heard")
    assert "unheard" not in stream.getvalue()
    assert "heard" in stream.getvalue()


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_traceback_contains_no_local_variables(log_format: logs.LogFormat) -> None:
    """Local variables may contain client data or passwords."""
    stream = io.StringIO()
    logs.configure(log_format, stream=stream)
    password = "hunter" + "2"
    try:
        int("broken " + str(len(password)))
    except ValueError:
        structlog.get_logger().exception("connection_failed")
    assert "broken 7" in stream.getvalue()
    assert password not in stream.getvalue()


def test_an_event_is_one_line_with_its_group() -> None:
    """The line has a past-tense name and fields."""
    with capture_logs() as lines:
        logs.write_to_log(MemberLeft(member_id="m", cause=RemovalCause.LEFT), "g")
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
    monkeypatch.setattr(logs, "log", structlog.wrap_logger(None, wrapper_class=logger))
    monkeypatch.setattr(GatewayEvent, "fields", property(lambda _: pytest.fail("nobody reads it")))
    logs.write_to_log(
        PartitionsStated(member_id="m", member_epoch=1, partitions={"foo": (0,)}), "g"
    )


def test_people_read_events_as_sentences_with_their_names() -> None:
    """An event that is a detail of another one has a line only on level debug."""
    stream = io.StringIO()
    logs.configure("console", stream=stream)
    left = MemberLeft(member_id="m", cause=RemovalCause.LEFT)
    logs.write_to_log(left, "g")
    logs.write_to_log(TargetComputed(assignment_epoch=1, assignor="range", partitions_moved=0), "g")
    (line,) = stream.getvalue().splitlines()
    assert "[info" in line
    assert "m left" in line
    assert "group_id=g" in line
    assert "kind=member_left" in line
    assert "cause=" not in line


def test_a_count_of_repeated_events_is_reported_without_their_lists() -> None:
    """The sum of a minute has no lists, so it cannot become a sentence."""
    stream = io.StringIO()
    logs.configure("console", stream=stream)
    structlog.get_logger().warning("readiness_changed", group_id="g", can_convert=False, more=7)
    assert "more=7" in stream.getvalue()
    assert "readiness_changed" in stream.getvalue()


def test_names_are_learned_from_events_that_are_not_written() -> None:
    """After a restart, only `group_loaded` says whose member ids they are."""
    stream = io.StringIO()
    logs.configure("console", stream=stream)
    member = MemberSnapshot(
        member_id="m",
        instance_id=None,
        client_id="orders-2",
        client_host="/h",
        protocol="classic",
        member_epoch=1,
        partitions=None,
    )
    loaded = GroupLoaded(kind="classic", state="Stable", group_epoch=1, members=(member,))
    logs.write_to_log(loaded, "g")
    logs.write_to_log(MemberLeft(member_id="m", cause=RemovalCause.LEFT), "g")
    (line,) = stream.getvalue().splitlines()
    assert "orders-2 left" in line
