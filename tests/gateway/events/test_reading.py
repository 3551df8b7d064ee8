"""The lines of a folder: all, in order, once each, and those to come."""

from pathlib import Path

import pytest

from gateway.events import reading
from gateway.events.catalog import BadLine
from gateway.events.envelope import Envelope
from gateway.events.reading import Line, read_lines
from tests.support.told_lines import told_line


def place(line: Line) -> tuple[str | None, str | None, int] | str:
    """Of an event its place in a sequence, of any other line where it is."""
    if isinstance(line.found, Envelope):
        return line.found.group_id, line.found.process_id, line.found.sequence
    return f"{line.path.name}:{line.number}"


def places(folder: Path) -> list[object]:
    """Of all lines."""
    return [place(line) for line in read_lines(folder)]


def test_a_repeat_is_left_out(tmp_path: Path) -> None:
    """Of the same group or process; equal numbers of others are none."""
    (tmp_path / "events-1.jsonl").write_text(
        told_line(1) + told_line(2) + told_line(1, process_id="p") + told_line(1, group_id="b")
    )
    (tmp_path / "events-2.jsonl").write_text(
        told_line(1)
        + told_line(2)
        + told_line(3)
        + told_line(1, process_id="q")
        + told_line(2, process_id="p", group_id="b")
        + told_line(1, process_id="p", group_id=None)
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


def test_a_sequence_that_begins_again_is_no_repeat(tmp_path: Path) -> None:
    """The group was deleted and came back, even if the clock was set back meanwhile."""
    (tmp_path / "events-1.jsonl").write_text(
        told_line(1, began_ms=7) + told_line(2, began_ms=7) + told_line(1, began_ms=9)
    )
    (tmp_path / "events-2.jsonl").write_text(
        told_line(1, began_ms=9) + told_line(2, began_ms=9) + told_line(1, began_ms=8)
    )
    assert places(tmp_path) == [("orders", None, each) for each in (1, 2, 1, 2, 1)]


def test_a_bad_line_has_its_place_and_stops_nothing(tmp_path: Path) -> None:
    """The torn end of a file too, once it is known that it stays so."""
    (tmp_path / "events-1.jsonl").write_bytes(
        told_line(1).encode() + b"\xff garbage\n\n" + told_line(2).encode() + b'{"event": "mem'
    )
    found = list(read_lines(tmp_path))
    assert [place(line) for line in found] == [
        ("orders", None, 1),
        "events-1.jsonl:2",
        "events-1.jsonl:3",
        ("orders", None, 2),
        "events-1.jsonl:5",
    ]
    assert isinstance(found[1].found, BadLine)


def test_whoever_follows_gets_what_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole lines only, and from one file to the next."""
    first, second = tmp_path / "events-1.jsonl", tmp_path / "events-2.jsonl"
    half = told_line(2)
    to_come = [
        lambda: first.write_text(told_line(1) + half[:20]),
        lambda: first.write_text(told_line(1) + half),
        lambda: second.write_text(told_line(3)),
    ]

    class Clock:
        """Something happens whenever the reader sleeps."""

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
