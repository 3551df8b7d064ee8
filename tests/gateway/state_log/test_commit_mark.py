"""The mark next to the state file is exact after a kill, and damage to it is detected."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from gateway.state_log.commit_mark import FILE_NAME, DamagedMark, Mark, MarkFile, read_mark

FIRST = Mark(log_id="0af7651916cd43dd8448eb211c80319c", transaction=7)
LATER = FIRST._replace(transaction=123_456)


def test_the_last_written_mark_is_read(tmp_path: Path) -> None:
    """The mark can be read while the file is open, because a killed process does not close it."""
    path = tmp_path / FILE_NAME
    assert read_mark(path) is None
    with closing(MarkFile.open(path, FIRST)) as mark_file:
        assert read_mark(path) == FIRST
        mark_file.write(LATER)
        assert read_mark(path) == LATER
    assert read_mark(path) == LATER


def test_only_its_owner_may_read_the_mark(tmp_path: Path) -> None:
    """This holds for every file in the state folder."""
    path = tmp_path / FILE_NAME
    MarkFile.open(path, FIRST).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_mark_replaces_the_old_content(tmp_path: Path) -> None:
    """All marks have the same length. Longer content is not a mark, and its end is removed."""
    path = tmp_path / FILE_NAME
    path.write_text("x" * 1_000)
    MarkFile.open(path, FIRST).close()
    assert read_mark(path) == FIRST


@pytest.mark.parametrize("position", range(0, 100, 3))
def test_a_flipped_bit_is_detected(tmp_path: Path, position: int) -> None:
    """Another valid mark would hide or invent lost transactions."""
    path = tmp_path / FILE_NAME
    MarkFile.open(path, FIRST).close()
    written = bytearray(path.read_bytes())
    written[position % len(written)] ^= 1
    path.write_bytes(written)
    with pytest.raises(DamagedMark, match=FILE_NAME):
        read_mark(path)


def test_a_cut_mark_is_damaged(tmp_path: Path) -> None:
    """This includes an empty file."""
    path = tmp_path / FILE_NAME
    MarkFile.open(path, FIRST).close()
    size = path.stat().st_size
    for length in range(size):
        os.truncate(path, length)
        with pytest.raises(DamagedMark):
            read_mark(path)
        MarkFile.open(path, FIRST).close()
    assert read_mark(path) == FIRST


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    """Its target may be any user's file."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / FILE_NAME).symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        MarkFile.open(tmp_path / FILE_NAME, FIRST)
    assert victim.read_text() == "precious"
