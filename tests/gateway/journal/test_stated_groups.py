"""A reader of the newest files needs no older ones."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gateway.events.catalog import read_line
from gateway.events.event import DecisionEvents, GatewayEvent
from gateway.events.group_events import GroupForwarded, GroupLoaded, HostingStarted
from gateway.journal import line_files, stated_groups
from gateway.journal.journal import Journal, Sinks
from gateway.journal.line_files import SERIES, LineFiles, paths_of
from tests.gateway.journal.test_journal import LEFT, epoch_bumped

LOADED = GroupLoaded(kind="classic", state="Stable", group_epoch=1, members=())
FORWARDED = GroupForwarded(reason="as configured")


@pytest.fixture
def files(tmp_path: Path) -> Iterator[LineFiles]:
    files = LineFiles(tmp_path)
    yield files
    files.close()


@pytest.fixture
def journal(files: LineFiles) -> Journal:
    journal = Journal("log", Sinks(files=files))
    journal.snapshot_of = lambda _group_id: LOADED
    return journal


def lines_of(folder: Path, prefix: str) -> list[list[tuple[str | None, str]]]:
    """The group and the event of each line, by file."""
    texts = [path.read_text().splitlines() for path in paths_of(folder, prefix)]
    return [[(line.group_id, line.event) for line in map(read_line, file)] for file in texts]


def write_batch(journal: Journal, group_id: str, *events: GatewayEvent) -> None:
    (envelopes,) = journal.stamp_batch([DecisionEvents(events, 5)], group_id)
    journal.pass_on(envelopes)


def tell_in_new_file(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, events: Sequence[tuple[GatewayEvent, str]]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(line_files, "FILE_BYTES_MAX", 1)
        journal.emit(*events[0])
    for event, group_id in events[1:]:
        journal.emit(event, group_id)


def test_a_file_states_a_forwarded_group_before_its_first_line(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had before is no longer needed once the cluster has it."""
    for group_id in ("a", "b", "quiet"):
        journal.emit(FORWARDED, group_id)
    events = [
        (LEFT, "a"),
        (HostingStarted(reason=""), "b"),
        (LOADED, "b"),
        (LEFT, "a"),
        (LEFT, "b"),
    ]
    tell_in_new_file(journal, monkeypatch, events)
    _first, *later = lines_of(tmp_path, SERIES[0])
    assert [line for file in later for line in file] == [
        ("a", "group_forwarded"),
        ("a", "member_left"),
        ("b", "hosting_started"),
        ("b", "group_loaded"),
        ("a", "group_forwarded"),
        ("a", "member_left"),
        ("b", "member_left"),
    ]


def test_a_bounded_number_of_forwarded_groups_is_remembered(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stated_groups, "FORWARDED_MAX", 1)
    journal.emit(FORWARDED, "a")
    journal.emit(FORWARDED, "b")
    tell_in_new_file(journal, monkeypatch, [(LEFT, "a"), (LEFT, "b")])
    _first, *later = lines_of(tmp_path, SERIES[0])
    lines = [line for file in later for line in file]
    assert ("a", "group_forwarded") not in lines
    assert ("b", "group_forwarded") in lines


def test_a_file_of_the_overflow_needs_no_older_one(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group is stated in the usual files, at the number that the overflow has reached."""
    journal.emit(HostingStarted(reason=""), "a")
    journal.emit(LOADED, "a")
    write_batch(journal, "a", epoch_bumped(1))
    journal._overflowing.add("a")
    for epoch in (2, 3):
        write_batch(journal, "a", epoch_bumped(epoch))
    monkeypatch.setattr(line_files, "FILE_BYTES_MAX", 300)
    write_batch(journal, "a", epoch_bumped(4))
    assert [len(file) for file in lines_of(tmp_path, SERIES[1])] == [2, 1]
    usual = [line for path in paths_of(tmp_path, SERIES[0]) for line in path.open()]
    loads = [line.after for line in map(read_line, usual) if line.event == "group_loaded"]
    assert loads == [0, 1, 3]
