"""One process owns a state folder. Others are refused with one line."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import state_folder
from gateway.state_folder import StateFolderError, bind_to_cluster, cluster_of, lock_folder

HOLD_AND_WAIT = """
import sys
from pathlib import Path
from gateway.state_folder import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    """A kill is enough, because the lock ends with its process."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_AND_WAIT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(StateFolderError) as refused, lock_folder(tmp_path):
            pass
        assert f"{tmp_path} is in use by another groupferry (process {holder.pid})" in str(
            refused.value
        )
        holder.kill()
    with lock_folder(tmp_path):
        pass


def test_a_missing_folder_is_created(tmp_path: Path) -> None:
    """Its parents are created as well."""
    with lock_folder(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """One line names it."""
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StateFolderError, match=f"{folder}: .*; give another --state-dir"):
            with lock_folder(folder):
                pass


def test_a_read_only_folder_is_refused(read_only_folder: Path) -> None:
    """The check comes first."""
    with pytest.raises(StateFolderError, match="Permission denied"), lock_folder(read_only_folder):
        pass


def test_only_the_owner_may_read_the_folder_and_its_files(tmp_path: Path) -> None:
    """This includes a folder that was open to others before."""
    old = tmp_path / "old"
    old.mkdir(mode=0o755)
    for folder in (old, tmp_path / "new"):
        with lock_folder(folder):
            (folder / "state").write_text("")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for name in ("state", "lock"):
            assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    (tmp_path / "after").write_text("")
    assert stat.S_IMODE((tmp_path / "after").stat().st_mode) != 0o600


def test_folders_may_be_unlocked_in_any_order(tmp_path: Path) -> None:
    """The process's own mask comes back with the last one: shards come and go."""
    first, second = lock_folder(tmp_path / "a"), lock_folder(tmp_path / "b")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    (tmp_path / "after").write_text("")
    assert stat.S_IMODE((tmp_path / "after").stat().st_mode) != 0o600


@pytest.mark.parametrize("name", ["lock", "state.sqlite", "broker_ports.json"])
def test_nothing_is_written_through_a_symbolic_link(tmp_path: Path, name: str) -> None:
    """The link's target may be another user's."""
    precious = tmp_path / "precious"
    precious.write_text("data")
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / name).symlink_to(precious)
    with pytest.raises(StateFolderError, match=f"{name} is a symbolic link"), lock_folder(folder):
        pass
    assert precious.read_text() == "data"


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That user could change its content."""
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setattr(state_folder, "_ROOT", -1)
    with pytest.raises(StateFolderError, match="belongs to another user"), lock_folder(tmp_path):
        pass


def test_a_folder_takes_the_cluster_that_it_first_meets(tmp_path: Path) -> None:
    """A cluster without an id is not remembered."""
    with lock_folder(tmp_path):
        bind_to_cluster(tmp_path, None)
        assert cluster_of(tmp_path) is None
        bind_to_cluster(tmp_path, "here")
        bind_to_cluster(tmp_path, "here")
    assert cluster_of(tmp_path) == "here"


@pytest.mark.parametrize("cluster_id", [None, "there"])
def test_a_folder_of_another_cluster_is_refused(tmp_path: Path, cluster_id: str | None) -> None:
    """One line names both clusters and the ways out, and the folder stays as it is."""
    bind_to_cluster(tmp_path, "here")
    with pytest.raises(StateFolderError) as refused:
        bind_to_cluster(tmp_path, cluster_id)
    (line,) = str(refused.value).splitlines()
    for part in (f"{tmp_path} belongs to cluster here", "--upstream", "--state-dir", "cluster_id"):
        assert part in line
    assert (cluster_id or "a cluster without an id") in line
    assert cluster_of(tmp_path) == "here"


def test_a_cluster_that_cannot_be_remembered_is_one_line(read_only_folder: Path) -> None:
    """The line names the file."""
    with pytest.raises(StateFolderError, match=r"cannot write .*/cluster_id: Permission denied"):
        bind_to_cluster(read_only_folder, "here")


def test_a_cluster_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    """The line names the file."""
    (tmp_path / "cluster_id").mkdir()
    with pytest.raises(StateFolderError, match=r"cannot read .*/cluster_id: Is a directory"):
        cluster_of(tmp_path)
