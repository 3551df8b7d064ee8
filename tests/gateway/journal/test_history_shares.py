"""One owner cannot push the events of others out of the history."""

from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from coordinator.interface.records import RemovalCause
from gateway.events.catalog import read_line
from gateway.events.event import Told
from gateway.events.member_events import MemberLeft
from gateway.hosting.owner import Owner
from gateway.journal import history_shares
from gateway.journal.history_shares import OWNERS_MAX, SHARE_BYTES, HistoryShares
from gateway.journal.journal import Journal, Sinks
from gateway.journal.line_files import FOLDER_AGE_MAX_S, FOLDER_BYTES_MAX, PATTERN, LineFiles

GREEDY, OTHER = Owner("10.0.0.1"), Owner("10.0.0.2")
LEFT = MemberLeft(member_id="m", cause=RemovalCause.LEFT)


def test_a_share_comes_back_within_the_time_that_files_are_kept() -> None:
    """So an owner that never stops has half of the folder."""
    now_ms = 0
    shares = HistoryShares(lambda: now_ms)
    shares.spend(GREEDY, SHARE_BYTES)
    assert not shares.has_room(GREEDY)
    assert shares.has_room(OTHER)
    written, day_ms = SHARE_BYTES, 24 * 60 * 60 * 1000
    while now_ms < FOLDER_AGE_MAX_S * 1000:
        now_ms += day_ms
        while shares.has_room(GREEDY):
            shares.spend(GREEDY, 1 << 20)
            written += 1 << 20
    assert written <= FOLDER_BYTES_MAX // 2 + (64 << 20)


def test_the_owners_in_memory_have_a_bound() -> None:
    """The one that was silent longest is forgotten."""
    shares = HistoryShares(lambda: 0)
    shares.spend(GREEDY, SHARE_BYTES)
    for number in range(OWNERS_MAX - 1):
        shares.spend(Owner(str(number)), 1)
    assert not shares.has_room(GREEDY)
    shares.spend(OTHER, 1)
    assert shares.has_room(GREEDY)


def test_events_beyond_a_share_leave_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They get no number. Events of a group's own sequence are always written, and those of others
    as well."""
    monkeypatch.setattr(history_shares, "SHARE_BYTES", 1_000)
    with closing(LineFiles(tmp_path)) as files, capture_logs() as lines:
        journal = Journal("log", Sinks(files=files), now_ms=lambda: 5)
        for _ in range(10):
            journal.tell(LEFT, "a", GREEDY)
        journal.tell(LEFT, "b", OTHER)
        journal.tell(LEFT, "b")
        for envelopes in journal.stamp_batch([Told((LEFT,), 6)], "a"):
            journal.pass_on(envelopes)
    (path,) = tmp_path.glob(PATTERN)
    events = [read_line(line) for line in path.read_bytes().splitlines()]
    of_process = [event for event in events if event.process_id is not None]
    assert [event.sequence for event in of_process] == [*range(1, len(of_process) + 1)]
    assert 1 < sum(event.group_id == "a" for event in of_process) < 10
    assert [event.group_id for event in events[-3:]] == ["b", "b", "a"]
    left_out = [line for line in lines if line["event"] == "events_left_out"]
    assert {line["client"] for line in left_out} == {"address 10.0.0.1"}
