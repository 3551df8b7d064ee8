"""One owner cannot push the events of others out of the history."""

from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from coordinator.interface.records import RemovalCause
from gateway.events.catalog import read_line
from gateway.events.event import DecisionEvents, Envelope
from gateway.events.member_events import MemberLeft
from gateway.journal import history_shares, journal, line_files
from gateway.journal.history_shares import (
    OTHER_BYTES_MAX,
    OWNERS_MAX,
    RECORD_BYTES_MAX,
    HistoryShares,
)
from gateway.journal.journal import Journal, Sinks
from gateway.journal.line_files import (
    FOLDER_AGE_MAX_S,
    FOLDER_BYTES_MAX,
    PATTERN,
    SERIES,
    LineFiles,
    paths_of,
)
from gateway.journal.reading import read_lines
from gateway.quotas.quota_key import QuotaKey
from tests.support.folded_lines import fold_texts

GREEDY, OTHER, THIRD = (QuotaKey(f"10.0.0.{number}") for number in range(3))
LEFT = MemberLeft(member_id="m", cause=RemovalCause.LEFT)
DAY_MS = 24 * 60 * 60 * 1000


def test_an_owner_has_half_of_what_others_leave() -> None:
    """A later client still finds space."""
    shares = HistoryShares(1_000, lambda: 0)
    for owner in (GREEDY, OTHER, THIRD):
        assert shares.has_room(owner)
        while shares.has_room(owner):
            shares.spend(owner, 1)
    assert shares._total.used == 500 + 250 + 125


def test_a_share_comes_back_when_the_files_may_be_gone() -> None:
    """An owner that never stops has one share at any time."""
    now_ms = 0
    shares = HistoryShares(1_000, lambda: now_ms)
    shares.spend(GREEDY, 300)
    now_ms += DAY_MS
    shares.spend(GREEDY, 200)
    assert not shares.has_room(GREEDY)
    now_ms = FOLDER_AGE_MAX_S * 1000
    shares.spend(GREEDY, 299)
    assert shares.has_room(GREEDY)
    shares.spend(GREEDY, 1)
    assert not shares.has_room(GREEDY)


def test_the_owners_in_memory_have_a_bound() -> None:
    """Further ones share one part."""
    shares = HistoryShares(10**9, lambda: 0)
    for number in range(OWNERS_MAX):
        shares.spend(QuotaKey(str(number)), 1)
    for number in range(100):
        shares.spend(QuotaKey(f"late {number}"), 1)
    assert shares._total.count_owners == OWNERS_MAX + 1


def test_what_clients_may_fill_and_what_overflows_fit_into_the_folder() -> None:
    """One of the two must not push the other out."""
    overflow = line_files.OVERFLOW_BYTES_MIN
    assert RECORD_BYTES_MAX + OTHER_BYTES_MAX + overflow <= FOLDER_BYTES_MAX


def test_events_beyond_a_share_leave_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events beyond a share get no number. Events of a group's own sequence are always written, and
    those of others as well."""
    monkeypatch.setattr(journal, "OTHER_BYTES_MAX", 2_000)
    with closing(LineFiles(tmp_path)) as files, capture_logs() as lines:
        writer = Journal("log", Sinks(files=files), now_ms=lambda: 5)
        for _ in range(10):
            writer.emit(LEFT, "a", GREEDY)
        writer.emit(LEFT, "b", OTHER)
        writer.emit(LEFT, "b")
        for envelopes in writer.stamp_batch([DecisionEvents((LEFT,), 6)], "a"):
            writer.pass_on(envelopes)
    (path,) = tmp_path.glob(PATTERN)
    events = [read_line(line) for line in path.read_bytes().splitlines()]
    of_process = [event for event in events if event.process_id is not None]
    assert [event.sequence for event in of_process] == [*range(1, len(of_process) + 1)]
    assert 1 < sum(event.group_id == "a" for event in of_process) < 10
    assert [event.group_id for event in events[-3:]] == ["b", "b", "a"]
    left_out = [line for line in lines if line["event"] == "events_left_out"]
    assert {line["client"] for line in left_out} == {"address 10.0.0.0"}


class Churn:
    """A history in small files, with clients that join and leave."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = LineFiles(folder)
        self.journal = Journal("log", Sinks(files=self.files), now_ms=lambda: self.now_ms)
        self.now_ms = 5

    def leave(self, group_id: str, owner: QuotaKey | None) -> None:
        """A member leaves, which the state log records."""
        self.now_ms += 1
        events = DecisionEvents((LEFT,), self.now_ms, owner)
        (envelopes,) = self.journal.stamp_batch([events], group_id)
        self.journal.pass_on(envelopes, owner)

    def events(self) -> list[Envelope]:
        """What a reader of the folder finds."""
        return [
            line.content for line in read_lines(self.folder) if isinstance(line.content, Envelope)
        ]

    def sequence(self, group_id: str) -> list[int]:
        """The numbers of a group's events, in the reader's order."""
        return [event.sequence for event in self.events() if event.group_id == group_id]


@pytest.fixture(name="churn")
def churn_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Churn:
    """A folder of 20 KB, with 5 KB for the overflow."""
    monkeypatch.setattr(line_files, "FILE_BYTES_MAX", 1_000)
    monkeypatch.setattr(line_files, "FOLDER_BYTES_MAX", 20_000)
    monkeypatch.setattr(line_files, "OVERFLOW_BYTES_MIN", 5_000)
    monkeypatch.setattr(journal, "RECORD_BYTES_MAX", 5_000)
    return Churn(tmp_path)


def test_a_client_in_a_loop_cannot_shorten_the_history_of_another_group(churn: Churn) -> None:
    """The client joins and leaves, so that each of its events has a record, under one group id or
    under many."""
    for _ in range(5):
        churn.leave("quiet", OTHER)
    for number in range(500):
        churn.leave("loop", GREEDY)
        churn.leave(f"loop-{number}", GREEDY)
    churn.leave("quiet", OTHER)
    assert churn.sequence("quiet") == [1, 2, 3, 4, 5, 6]
    assert sum(path.stat().st_size for path in churn.folder.glob(PATTERN)) <= 20_000


def test_sessions_that_end_count_towards_the_client_that_has_joined(churn: Churn) -> None:
    """A client may join and never leave, under ever new group ids."""
    for _ in range(5):
        churn.leave("quiet", OTHER)
    for number in range(300):
        churn.leave(f"loop-{number}", GREEDY)
        for _ in range(3):
            churn.leave(f"loop-{number}", None)
    usual = sum(path.stat().st_size for path in paths_of(churn.folder, SERIES[0]))
    assert usual < 2 * 2_500 + 2_000
    assert churn.sequence("quiet") == [1, 2, 3, 4, 5]


def test_several_clients_in_a_loop_cannot_either(churn: Churn) -> None:
    """Each has half of what the others leave."""
    for _ in range(3):
        churn.leave("quiet", None)
    for number in range(20):
        for _ in range(50):
            churn.leave(f"loop-{number}", QuotaKey(f"10.0.1.{number}"))
    assert churn.sequence("quiet") == [1, 2, 3]


def test_the_overflow_takes_what_is_free(churn: Churn) -> None:
    """The history of a gateway with one client is no shorter than it would be without shares."""
    for _ in range(500):
        churn.leave("loop", GREEDY)
    usual, overflow = (
        sum(path.stat().st_size for path in paths_of(churn.folder, prefix)) for prefix in SERIES
    )
    assert usual < 5_000
    assert 12_000 < overflow < 20_000


def test_the_usual_files_are_not_kept_beyond_their_own_part(churn: Churn) -> None:
    """The overflow has a part that no owner can take."""
    for _ in range(100):
        churn.leave("loop", GREEDY)
    for _ in range(500):
        churn.leave("quiet", None)
    (first, *_others) = (path for path in paths_of(churn.folder, SERIES[1]))
    assert sum(path.stat().st_size for path in paths_of(churn.folder, SERIES[1])) > 3_000
    assert first.exists()


def test_a_reader_finds_each_sequence_in_order(churn: Churn) -> None:
    """The order holds across both kinds of files, and after a restart."""
    for _ in range(30):
        churn.leave("loop", GREEDY)
        churn.leave("quiet", OTHER)
    churn.files.close()
    again = Churn(churn.folder)
    again.now_ms = churn.now_ms
    again.journal._groups = churn.journal._groups
    for _ in range(3):
        again.leave("loop", GREEDY)
    assert again.sequence("loop") == [*range(1, 34)]
    assert again.sequence("quiet") == [*range(1, 31)]
    assert paths_of(churn.folder, SERIES[1])


def test_a_report_misses_nothing_while_both_kinds_of_files_are_kept(churn: Churn) -> None:
    """A report reads the files in any order."""
    for _ in range(20):
        churn.leave("loop", GREEDY)
        churn.leave("quiet", OTHER)
        churn.journal.emit(LEFT, "loop")
    paths = sorted(churn.folder.glob(PATTERN), reverse=True)
    tables = fold_texts(*(line for path in paths for line in path.read_text().splitlines()))
    assert len(paths_of(churn.folder, SERIES[1])) > 1
    assert [row for row in tables.unread if row.kind != "no end"] == []


def test_a_group_that_is_deleted_begins_again_among_the_others(churn: Churn) -> None:
    """The client that comes back may be another one."""
    for _ in range(30):
        churn.leave("loop", GREEDY)
    churn.journal.forget("loop")
    churn.leave("loop", OTHER)
    last = max(paths_of(churn.folder, SERIES[0]))
    assert read_line(last.read_bytes().splitlines()[-1]).group_id == "loop"


def test_events_without_a_record_stay_in_the_usual_files(churn: Churn) -> None:
    """Their sequence is that of the process, whose gaps would concern all groups."""
    for _ in range(30):
        churn.leave("loop", GREEDY)
    churn.journal.emit(LEFT, "loop")
    last = max(paths_of(churn.folder, SERIES[0]))
    assert read_line(last.read_bytes().splitlines()[-1]).process_id is not None


def test_the_overflow_is_reported(churn: Churn) -> None:
    """Once for each group."""
    with capture_logs() as lines:
        for _ in range(30):
            churn.leave("loop", GREEDY)
    overflows = [line for line in lines if line["event"] == "events_overflow"]
    assert [(line["client"], line["group_id"]) for line in overflows] == [
        ("address 10.0.0.0", "loop")
    ]


def test_shares_are_totals_of_the_folder() -> None:
    """A change of the folder's size changes them."""
    assert history_shares.RECORD_BYTES_MAX == FOLDER_BYTES_MAX // 4
