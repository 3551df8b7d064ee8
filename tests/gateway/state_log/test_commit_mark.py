"""The mark beside the state file: exact after a kill, and known to be damaged when it is."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from gateway.state_log.commit_mark import FILE_NAME, DamagedMark, Mark, MarkFile, read_mark

FIRST = Mark(log_id="0af7651916cd43dd8448eb211c80319c", transaction=7)
LATER = FIRST._replace(transaction=123_456)


def test_the_last_mark_that_was_written_is_read(tmp_path: Path) -> None:
    """Also while the file is open: nobody closes it when a process is killed."""
    path = tmp_path / FILE_NAME
    assert read_mark(path) is None
    with closing(MarkFile.open(path, FIRST)) as mark_file:
        assert read_mark(path) == FIRST
        mark_file.write(LATER)
        assert read_mark(path) == LATER
    assert read_mark(path) == LATER


def test_only_its_owner_may_read_the_mark(tmp_path: Path) -> None:
    """Like every file in the state folder."""
    path = tmp_path / FILE_NAME
    MarkFile.open(path, FIRST).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_mark_replaces_whatever_was_in_the_file(tmp_path: Path) -> None:
    """All marks are of one length: what is longer is no mark, and its end does not stay."""
    path = tmp_path / FILE_NAME
    path.write_text("x" * 1_000)
    MarkFile.open(path, FIRST).close()
    assert read_mark(path) == FIRST


@pytest.mark.parametrize("position", range(0, 100, 3))
def test_a_flipped_bit_makes_a_damaged_mark(tmp_path: Path, position: int) -> None:
    """Not another mark, which would hide lost transactions or make up some."""
    path = tmp_path / FILE_NAME
    MarkFile.open(path, FIRST).close()
    written = bytearray(path.read_bytes())
    written[position % len(written)] ^= 1
    path.write_bytes(written)
    with pytest.raises(DamagedMark, match=FILE_NAME):
        read_mark(path)


def test_a_cut_mark_is_damaged(tmp_path: Path) -> None:
    """Also one of which nothing is left."""
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
    """Its target may be anybody's file."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / FILE_NAME).symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        MarkFile.open(tmp_path / FILE_NAME, FIRST)
    assert victim.read_text() == "precious"
