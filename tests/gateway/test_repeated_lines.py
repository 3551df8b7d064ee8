"""A condition is one line when it begins, one a minute with its count, and one when it ends."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
import structlog
import trio
from trio.testing import MockClock

from gateway import logs
from gateway.data_path.client_warnings import ClientWarnings
from gateway.events.catalog import EVENTS
from gateway.repeated_lines import (
    CONDITIONS_MAX,
    CONDITIONS_OF_CLIENTS_MAX,
    CONDITIONS_PER_KIND_MAX,
    EVENT_LINES_MAX,
    INFO_LINES_MAX,
    INTERVAL_S,
    OTHERS,
    VALUE_CHARS_MAX,
    RepeatedLines,
)
from tests.gateway.test_troubleshooting import event_names, line_names

LOADING = "the cluster does not say who is in the group: COORDINATOR_LOAD_IN_PROGRESS"


class Log:
    """A configured log with a clock of its own."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.repeated = RepeatedLines(lambda: self.now_s)
        self._stream = io.StringIO()
        logs.configure("json", stream=self._stream, counts_repeats=True)
        processors = structlog.get_config()["processors"]
        (place,) = (n for n, step in enumerate(processors) if isinstance(step, RepeatedLines))
        processors[place] = self.repeated
        self.write = structlog.get_logger()

    def take(self) -> list[dict[str, Any]]:
        """The lines since the last look, without their times."""
        lines = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        self._stream.seek(0)
        self._stream.truncate()
        return [{k: v for k, v in line.items() if k != "timestamp"} for line in lines]

    def pass_time(self, length_s: float = INTERVAL_S) -> list[dict[str, Any]]:
        """The lines that are due after this time."""
        self.now_s += length_s
        self.repeated.sum_up()
        return self.take()


@pytest.fixture
def log() -> Log:
    """A log whose configuration ends with the test."""
    return Log()


def test_a_condition_of_a_thousand_groups_is_one_line_a_minute(log: Log) -> None:
    """The condition begins, lasts, and ends."""
    for number in range(1_333):
        log.write.warning("group_state_unknown", group_id=f"g{number}", reason=LOADING)
    (begun,) = log.take()
    assert begun == {
        "event": "group_state_unknown",
        "level": "warning",
        "group_id": "g0",
        "reason": LOADING,
    }
    (lasting,) = log.pass_time()
    assert (lasting["group_id"], lasting["more"], lasting["level"]) == ("g1332", 1_332, "warning")
    assert log.pass_time(INTERVAL_S / 2) == []
    (over,) = log.pass_time()
    assert (over["is_over"], over["occurrences"], over["level"]) == (True, 1_333, "info")
    log.write.warning("group_state_unknown", group_id="g", reason=LOADING)
    assert len(log.take()) == 1


def test_what_happens_once_is_one_line(log: Log) -> None:
    """Nothing follows, and nothing is remembered."""
    log.write.warning("group_state_unknown", group_id="g", reason=LOADING)
    log.take()
    assert log.pass_time() == []
    assert not log.repeated._conditions
    assert not log.repeated._per_kind


def test_each_reason_is_a_condition_up_to_a_share(log: Log) -> None:
    """Beyond that, a kind has one more line."""
    for number in range(10 * CONDITIONS_PER_KIND_MAX):
        log.write.warning("group_state_unknown", group_id="g", reason=f"reason {number}")
    assert len(log.take()) == CONDITIONS_PER_KIND_MAX + 1
    log.write.warning("anchor_lost", group_id="g", reason="another kind")
    assert len(log.take()) == 1


def test_a_kind_of_one_address_is_one_line_whatever_the_reason(log: Log) -> None:
    """Clients choose the reasons. Other addresses have lines of their own."""
    client_warnings = ClientWarnings()
    for number in range(20):
        client_warnings.warn("bad_frame_received", "10.0.0.1", reason=f"bytes {number}")
    client_warnings.warn("bad_frame_received", "10.0.0.2", reason="others")
    client_warnings.warn("connection_refused", "10.0.0.1")
    assert [(line["event"], line["client_host"]) for line in log.take()] == [
        ("bad_frame_received", "10.0.0.1"),
        ("bad_frame_received", "10.0.0.2"),
        ("connection_refused", "10.0.0.1"),
    ]
    (line,) = log.pass_time()
    assert (line["client_host"], line["more"], line["reason"]) == ("10.0.0.1", 19, "bytes 19")
    assert client_warnings.counts == {"bad_frame_received": 21, "connection_refused": 1}


def test_refused_requests_of_one_client_are_counted_by_error(log: Log) -> None:
    """Refused requests are no warnings, but a client can cause them with each request."""
    for number in range(600):
        log.write.info(
            "request_refused",
            group_id=f"g{number}",
            client="address 10.0.0.1",
            error_code=("INVALID_REQUEST", "GROUP_ID_NOT_FOUND")[number % 2],
            reason=f"reason {number}",
        )
    assert len(log.take()) == 2
    assert [line["more"] for line in log.pass_time()] == [299, 299]


def test_many_addresses_leave_room_for_the_cluster(log: Log) -> None:
    """Memory is bounded. What is said about clients beyond the limit is counted together."""
    long = "x" * 40_000
    for number in range(3 * CONDITIONS_MAX):
        log.write.warning("bad_frame_received", client_host=str(number), reason=long)
    lines = log.take()
    assert len(lines) == CONDITIONS_OF_CLIENTS_MAX + 1
    assert lines[-1]["client_host"] == str(CONDITIONS_OF_CLIENTS_MAX)
    log.write.warning("anchor_lost", group_id="g", reason="first")
    log.write.warning("anchor_lost", group_id="g", reason="second")
    assert len(log.take()) == 2
    remembered = log.repeated._conditions.values()
    assert {len(condition.line.get("reason", "")) for condition in remembered} == {
        VALUE_CHARS_MAX + 1,
        len("first"),
        len("second"),
    }
    (line,) = (line for line in log.pass_time() if line["event"] == "bad_frame_received")
    others = 3 * CONDITIONS_MAX - CONDITIONS_OF_CLIENTS_MAX - 1
    assert (line["client_host"], line["more"]) == (OTHERS, others)


def test_each_bug_has_its_traceback_once(log: Log) -> None:
    """Another bug of the same type has a traceback of its own."""

    def fail(bug: Callable[[], object], group_id: str) -> None:
        try:
            bug()
        except KeyError:
            log.write.exception("group_failed", group_id=group_id)

    empty: dict[str, object] = {}

    def first() -> object:
        return empty["a"]

    def second() -> object:
        return empty["a"]

    for number in range(50):
        fail(first, f"g{number}")
        fail(second, f"g{number}")
    assert [len(line["exception"]) for line in log.take()] == [1, 1]
    assert [(line["more"], "exception" in line) for line in log.pass_time()] == [(49, False)] * 2


def test_no_warning_or_error_can_flood_the_log() -> None:
    """This holds for each one that the code can write, from whichever place."""
    # Not as parameters: each worker would look for them in all code.
    for event in sorted({*line_names(), *event_names()}):
        log = Log()
        for number in range(4 * EVENT_LINES_MAX):
            log.write.warning(event, group_id=f"g{number}", reason=f"reason {number}")
            log.write.error(event, client_host="10.0.0.1", reason=f"reason {number}")
        lines_max = 2 * EVENT_LINES_MAX if event in EVENTS else CONDITIONS_PER_KIND_MAX + 2
        assert len(log.take()) <= lines_max, event
        assert len(log.pass_time()) <= CONDITIONS_PER_KIND_MAX + 2, event


def test_lines_about_the_life_of_groups_are_written_up_to_a_number(log: Log) -> None:
    """Equal ones, too. Clients can cause them, so those beyond are counted."""
    for _ in range(INFO_LINES_MAX + 5):
        log.write.info("hosting_started", group_id="g", reason="it is free")
    assert len(log.take()) == INFO_LINES_MAX
    (line,) = log.pass_time()
    assert (line["more"], line["level"]) == (5, "info")
    for _ in range(INFO_LINES_MAX + 5):
        log.write.info("hosting_started", group_id="g", reason="it is free")
    assert len(log.take()) == INFO_LINES_MAX - 1  # one was the count
    assert [line["more"] for line in log.pass_time()] == [6]
    log.pass_time()
    for _ in range(3):
        log.write.info("hosting_started", group_id="g", reason="it is free")
    assert len(log.take()) == 3
    assert log.pass_time() == []


def test_each_group_that_is_taken_has_its_line(log: Log) -> None:
    """An event that is a warning or an error is about one group, and operators look for its name.
    Very many are counted all the same."""
    for number in range(EVENT_LINES_MAX + 5):
        log.write.error("group_taken", group_id=f"g{number}", reason="a member")
    assert [line["group_id"] for line in log.take()] == [f"g{n}" for n in range(EVENT_LINES_MAX)]
    assert [line["more"] for line in log.pass_time()] == [5]


def test_lines_for_developers_are_all_written(log: Log) -> None:
    """On level debug."""
    logs.configure("json", log_level="debug", stream=log._stream, counts_repeats=True)
    for _ in range(INFO_LINES_MAX + 5):
        structlog.get_logger().debug("connection_lost", client_host="10.0.0.1")
    assert len(log.take()) == INFO_LINES_MAX + 5


async def test_counts_survive_a_change_of_settings_and_the_end(mock_clock: MockClock) -> None:
    """A reload configures the log again. At the end, nothing that was counted is lost."""
    stream = io.StringIO()
    logs.configure("json", stream=stream, counts_repeats=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(logs.sum_up_repeats)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(2):
            structlog.get_logger().warning("anchor_lost", group_id="g")
            logs.configure("json", stream=stream, counts_repeats=True)
        mock_clock.jump(logs.SUM_UP_INTERVAL_S)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("more") for line in lines] == [None, 1]
