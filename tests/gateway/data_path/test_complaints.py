"""Repeated errors of clients are logged at intervals."""

from structlog.testing import capture_logs
from trio.testing import MockClock

from gateway.data_path import complaints
from gateway.data_path.complaints import INTERVAL_S, KINDS_MAX, OTHER_CLIENTS, Complaints


async def test_equal_errors_of_one_address_are_one_line_per_interval(mock_clock: MockClock) -> None:
    """The line has their number. After the interval the next error is logged again."""
    told = Complaints()
    with capture_logs() as lines:
        for number in range(20):
            told.tell("bad_frame_received", "10.0.0.1", reason=f"bytes {number}")
        told.tell("bad_frame_received", "10.0.0.2", reason="others")
        told.tell("connection_refused", "10.0.0.1")
    assert [(line["event"], line["client_host"]) for line in lines] == [
        ("bad_frame_received", "10.0.0.1"),
        ("bad_frame_received", "10.0.0.2"),
        ("connection_refused", "10.0.0.1"),
    ]
    assert lines[0]["reason"] == "bytes 0"
    with capture_logs() as lines:
        told.sum_up()
        mock_clock.jump(INTERVAL_S)
        told.sum_up()
        told.sum_up()
        mock_clock.jump(INTERVAL_S)
        told.sum_up()
    (line,) = lines
    assert (line["client_host"], line["more"], line["reason"]) == ("10.0.0.1", 19, "bytes 19")
    with capture_logs() as lines:
        told.tell("bad_frame_received", "10.0.0.1")
    assert len(lines) == 1


async def test_a_limited_number_of_addresses_has_separate_lines(mock_clock: MockClock) -> None:
    """Further addresses share their lines."""
    told = Complaints()
    with capture_logs() as lines:
        for number in range(KINDS_MAX + 10):
            told.tell("bad_frame_received", str(number))
    assert len(lines) == KINDS_MAX + 1
    assert lines[-1]["client_host"] == OTHER_CLIENTS
    assert len(told._said) == KINDS_MAX + 1  # noqa: SLF001, RUF100
    assert complaints.INTERVAL_S == INTERVAL_S
