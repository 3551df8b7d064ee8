"""Reading the lines of a folder: in order, once each, and future ones."""

from pathlib import Path

import pytest

from gateway.events.catalog import BadLine
from gateway.events.event import Envelope
from gateway.journal import reading
from gateway.journal.reading import JournalLine, read_lines
from tests.support.event_lines import event_line


def place(line: JournalLine) -> tuple[str | None, str | None, int] | str:
    """The place of an event in its sequence, or of any other line in its file."""
    if isinstance(line.content, Envelope):
        return line.content.group_id, line.content.process_id, line.content.sequence
    return f"{line.path.name}:{line.number}"


def places(folder: Path) -> list[object]:
    """The places of all lines."""
    return [place(line) for line in read_lines(folder)]


def test_a_repeated_line_is_skipped(tmp_path: Path) -> None:
    """A repeat has the same group or process. Equal numbers of others are no repeats."""
    (tmp_path / "events-1.jsonl").write_text(
        event_line(1) + event_line(2) + event_line(1, process_id="p") + event_line(1, group_id="b")
    )
    (tmp_path / "events-2.jsonl").write_text(
        event_line(1)
        + event_line(2)
        + event_line(3)
        + event_line(1, process_id="q")
        + event_line(2, process_id="p", group_id="b")
        + event_line(1, process_id="p", group_id=None)
    )
    assert places(tmp_path) == [
        ("orders", None, 1),
        ("orders", None, 2),
        ("orders", "p", 1),
        ("b", None, 1),
        ("orders", None, 3),
        ("orders", "q", 1),
        ("b", "p", 2),
    ]


def test_a_restarted_sequence_is_no_repeat(tmp_path: Path) -> None:
    """The group was deleted and created again, perhaps with the clock set back."""
    (tmp_path / "events-1.jsonl").write_text(
        event_line(1, began_ms=7) + event_line(2, began_ms=7) + event_line(1, began_ms=9)
    )
    (tmp_path / "events-2.jsonl").write_text(
        event_line(1, began_ms=9) + event_line(2, began_ms=9) + event_line(1, began_ms=8)
    )
    assert places(tmp_path) == [("orders", None, sequence) for sequence in (1, 2, 1, 2, 1)]


def test_an_invalid_line_is_reported_with_its_place(tmp_path: Path) -> None:
    """This includes the torn end of a file, once it is final. Reading continues."""
    (tmp_path / "events-1.jsonl").write_bytes(
        event_line(1).encode() + b"\xff garbage\n\n" + event_line(2).encode() + b'{"event": "mem'
    )
    lines = list(read_lines(tmp_path))
    assert [place(line) for line in lines] == [
        ("orders", None, 1),
        "events-1.jsonl:2",
        "events-1.jsonl:3",
        ("orders", None, 2),
        "events-1.jsonl:5",
    ]
    assert isinstance(lines[1].content, BadLine)


def test_a_follower_gets_later_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower gets whole lines only, from one file to the next."""
    first, second = tmp_path / "events-1.jsonl", tmp_path / "events-2.jsonl"
    half = event_line(2)
    to_come = [
        lambda: first.write_text(event_line(1) + half[:20]),
        lambda: first.write_text(event_line(1) + half),
        lambda: second.write_text(event_line(3)),
    ]

    class Clock:
        """Run an action whenever the reader sleeps."""

        def sleep(self, _seconds: float) -> None:
            if to_come:
                to_come.pop(0)()

    monkeypatch.setattr(reading, "time", Clock())
    followed = read_lines(tmp_path, follows=True)
    assert [place(next(followed)) for _ in range(3)] == [
        ("orders", None, 1),
        ("orders", None, 2),
        ("orders", None, 3),
    ]


def test_the_lines_of_several_folders_are_read_by_time(tmp_path: Path) -> None:
    """Each process of a fleet writes its own."""
    for slot, times in enumerate(((1, 4), (2, 3))):
        folder = tmp_path / str(slot)
        folder.mkdir()
        lines = [event_line(at_ms, group_id=f"g{slot}", at_ms=at_ms) for at_ms in times]
        (folder / "events-1.jsonl").write_text("".join(lines))
    read = read_lines(tmp_path / "0", tmp_path / "1")
    assert [place(line) for line in read] == [
        ("g0", None, 1),
        ("g1", None, 2),
        ("g1", None, 3),
        ("g0", None, 4),
    ]
