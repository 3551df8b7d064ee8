"""JSON lines in a folder: file rotation, deletion, and full disks."""

import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.journal import line_files
from gateway.journal.line_files import PATTERN, LineFiles


class Wall:
    """The time of day, as set by the test."""

    def __init__(self) -> None:
        self.now_s = float(int(time.time()))  # files have the real one

    def time(self) -> float:
        return self.now_s


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    """The clock of the files."""
    clock = Wall()
    monkeypatch.setattr(line_files, "time", clock)
    return clock


def contents(folder: Path) -> list[bytes]:
    """The lines of all files in the order of their names."""
    return [path.read_bytes() for path in sorted(folder.glob(PATTERN))]


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Limit the size of files, as a full disk does."""
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(
        signal.SIGXFSZ, signal.SIG_IGN
    )  # otherwise the signal would end the process
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, allowed[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
        signal.signal(signal.SIGXFSZ, handler)


def test_lines_are_stored_at_once(tmp_path: Path, wall: Wall) -> None:
    """A killed process loses none. The file's name has the time of its first line."""
    files = LineFiles(tmp_path / "events")
    files.write(b"1\n")
    files.write(b"2\n3\n")
    assert contents(tmp_path / "events") == [b"1\n2\n3\n"]
    (path,) = (tmp_path / "events").iterdir()
    at = datetime.fromtimestamp(wall.now_s, UTC)
    assert path.name == f"events-{at:%Y%m%dT%H%M%S}.000Z.jsonl"
    files.close()


def test_a_restart_continues_the_newest_file(tmp_path: Path, wall: Wall) -> None:
    """A gateway that restarts repeatedly does not create many files."""
    for number in range(3):
        files = LineFiles(tmp_path)
        files.write(b"%d\n" % number)
        files.close()
        wall.now_s += 1
    assert contents(tmp_path) == [b"0\n1\n2\n"]


def test_a_torn_line_stays_separate(tmp_path: Path, wall: Wall) -> None:
    """After a crash of the machine the next event begins a new line."""
    first = LineFiles(tmp_path)
    first.write(b'{"whole": 1}\n{"torn')
    first.close()
    second = LineFiles(tmp_path)
    second.write(b'{"whole": 2}\n')
    second.close()
    assert contents(tmp_path) == [b'{"whole": 1}\n{"torn\n{"whole": 2}\n']


def test_a_full_file_is_followed_by_another(
    tmp_path: Path, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is split. A line larger than a file has its own."""
    monkeypatch.setattr(line_files, "FILE_BYTES_MAX", 10)
    files = LineFiles(tmp_path)
    for line in (b"12345\n", b"123\n", b"1\n", b"1234567890123\n", b"1\n"):
        files.write(line)
    files.close()
    assert contents(tmp_path) == [b"12345\n123\n", b"1\n", b"1234567890123\n", b"1\n"]


def test_an_old_file_is_followed_by_another(tmp_path: Path, wall: Wall) -> None:
    """Each file has the events of one day."""
    files = LineFiles(tmp_path)
    files.write(b"1\n")
    wall.now_s += line_files.FILE_AGE_MAX_S
    files.write(b"2\n")
    files.close()
    assert contents(tmp_path) == [b"1\n", b"2\n"]


@pytest.mark.parametrize("step_s", [-0.0006, -3600.0])
def test_a_file_from_the_future_is_continued(tmp_path: Path, wall: Wall, step_s: float) -> None:
    """The clock was set back. A file per line would be useless."""
    files = LineFiles(tmp_path)
    files.write(b"1\n")
    wall.now_s += step_s
    files.write(b"2\n")
    files.write(b"3\n")
    files.close()
    assert contents(tmp_path) == [b"1\n2\n3\n"]
    files = LineFiles(tmp_path)
    files.write(b"4\n")
    files.close()
    assert contents(tmp_path) == [b"1\n2\n3\n4\n"]


def test_the_oldest_files_are_deleted_beyond_the_total_size(
    tmp_path: Path, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit includes the growth of the newest file."""
    monkeypatch.setattr(line_files, "FILE_BYTES_MAX", 10)
    monkeypatch.setattr(line_files, "FOLDER_BYTES_MAX", 35)
    (tmp_path / "notes.txt").write_text("somebody else's")
    files = LineFiles(tmp_path)
    for number in range(9):
        files.write(b"%09d\n" % number)
        assert sum(map(len, contents(tmp_path))) <= 35
    files.close()
    assert contents(tmp_path)[-1] == b"000000008\n"
    assert (tmp_path / "notes.txt").exists()


def test_old_files_are_deleted(tmp_path: Path, wall: Wall) -> None:
    """Their age counts from the last write."""
    files = LineFiles(tmp_path)
    files.write(b"1\n")
    (path,) = tmp_path.iterdir()
    os.utime(path, (wall.now_s, wall.now_s))
    wall.now_s += line_files.FOLDER_AGE_MAX_S + 1
    files.write(b"2\n")
    files.close()
    assert contents(tmp_path) == [b"2\n"]


def test_a_full_disk_loses_only_lines(tmp_path: Path, wall: Wall) -> None:
    """One log line reports its start, one its end. The files contain only whole lines."""
    files = LineFiles(tmp_path)
    files.write(b"before\n")
    with capture_logs() as lines:
        with files_of_at_most(10):
            files.write(b"lost\n")
            files.write(b"lost as well\n")
            assert files.lost == 2
        files.write(b"after\n")
    files.close()
    assert contents(tmp_path) == [b"before\nafter\n"]
    assert [(line["event"], line.get("lost")) for line in lines] == [
        ("events_lost", None),
        ("events_written_again", 2),
    ]


def test_a_folder_that_cannot_be_created_loses_only_lines(tmp_path: Path, wall: Wall) -> None:
    """A file has its name."""
    (tmp_path / "events").write_text("")
    files = LineFiles(tmp_path / "events")
    with capture_logs() as lines:
        files.write(b"1\n")
    assert [line["event"] for line in lines] == ["events_lost"]
