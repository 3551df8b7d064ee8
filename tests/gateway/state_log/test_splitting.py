"""The state of a single gateway becomes that of a fleet."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.fleet import fleet_state
from gateway.fleet.fleet_state import SHARDS_FOLDER, open_state, read_state, write_state
from gateway.fleet.member import SHARDS, FleetMember
from gateway.state_folder import StateFolderError
from gateway.state_log import splitting
from gateway.state_log.log import StateLogUnusable
from gateway.state_log.sharded import open_sharded_log
from gateway.state_log.splitting import split_state
from gateway.state_log.sqlite import open_sqlite_log
from gateway.state_log.sqlite_layout import FILE_NAME
from gateway.state_log.sqlite_reader import read_state as read_file
from tests.support.durable_records import RECORDS

GOLDEN = Path(__file__).parents[2] / "golden"
GROUP_IDS = [f"group-{number}" for number in range(12)]
WHOLE = FleetMember(slot=0, slots=1, shards=SHARDS)


async def fill(folder: Path) -> tuple[str, int]:
    """Write the state of a single gateway. Returns the id of its log and of its run."""
    async with open_sqlite_log(folder) as log:
        for group_id in GROUP_IDS:
            await log.append(group_id, list(RECORDS.values()))
        return log.id, log.run_id


def start(folder: Path) -> None:
    """Do what the parent of a fleet begins with."""
    split_state(folder)
    write_state(folder, open_state(folder, 2))


async def test_every_group_has_its_records_in_its_shard(tmp_path: Path) -> None:
    """The log keeps its id and its runs continue, or its own anchors would be strangers."""
    log_id, run_id = await fill(tmp_path)
    async with open_sqlite_log(tmp_path) as log:
        before = {group_id: await log.read(group_id) for group_id in GROUP_IDS}
    split_state(tmp_path)
    state = read_state(tmp_path)
    assert state is not None
    assert (state.log_id, state.shards) == (log_id, SHARDS)
    assert state.with_run().runs > run_id + len(GROUP_IDS)
    async with open_sharded_log(tmp_path, WHOLE, log_id=log_id, run_id=state.runs) as shards:
        assert {group_id: await shards.read(group_id) for group_id in GROUP_IDS} == before
        assert sorted(await shards.group_ids()) == sorted(GROUP_IDS)


async def test_the_old_file_is_refused_and_stays_readable(tmp_path: Path) -> None:
    """A groupferry without shards would continue to serve groups that other processes have now."""
    await fill(tmp_path)
    before = read_file(tmp_path)
    assert before is not None
    split_state(tmp_path)
    with pytest.raises(StateLogUnusable, match="newer groupferry"):
        read_file(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        (rows,) = connection.execute("SELECT count(*) FROM records").fetchone()
    assert rows == len(before.rows) > 0


def test_a_new_folder_of_a_fleet_is_refused_by_older_versions(tmp_path: Path) -> None:
    """An older version would begin with an empty file in the folder."""
    split_state(tmp_path)
    with pytest.raises(StateLogUnusable, match="newer groupferry"):
        read_file(tmp_path)


def test_a_first_start_that_failed_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first start may fail on a full disk: nothing is there yet that could be lost."""

    def fail(_path: Path, _text: str) -> None:
        raise StateFolderError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(fleet_state, "write_file", fail)
        with pytest.raises(StateFolderError, match="full"):
            start(tmp_path)
    start(tmp_path)
    assert read_state(tmp_path) is not None


def test_the_state_of_an_older_version_is_split(tmp_path: Path) -> None:
    """Files of the first format are kept in the repository."""
    (tmp_path / FILE_NAME).write_bytes((GOLDEN / "state_v1.sqlite").read_bytes())
    before = read_file(tmp_path)
    assert before is not None
    split_state(tmp_path)
    shards = [read_file(folder) for folder in (tmp_path / SHARDS_FOLDER).glob("0*")]
    entries = {(row.group_id, row.entry) for shard in shards if shard for row in shard.rows}
    assert entries == {(row.group_id, row.entry) for row in before.rows}
    assert entries


async def test_a_state_is_split_only_once(tmp_path: Path) -> None:
    """What the shards have got since then stays."""
    log_id, _ = await fill(tmp_path)
    split_state(tmp_path)
    async with open_sharded_log(tmp_path, WHOLE, log_id=log_id, run_id=99) as shards:
        await shards.append("new", list(RECORDS.values()))
    split_state(tmp_path)
    async with open_sharded_log(tmp_path, WHOLE, log_id=log_id, run_id=100) as shards:
        assert "new" in await shards.group_ids()


@pytest.mark.parametrize("ended_before", ["rename", "retire"])
async def test_a_split_that_was_interrupted_is_made_good(
    ended_before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the shards are there as a whole, the file counts; afterwards it is refused."""
    log_id, _ = await fill(tmp_path)

    def end(*_: object) -> None:
        raise OSError("the power is gone")

    with monkeypatch.context() as patched:
        if ended_before == "rename":
            patched.setattr(Path, "rename", end)
        else:
            patched.setattr(splitting, "_retire", end)
        with pytest.raises(StateLogUnusable, match="the power is gone"):
            split_state(tmp_path)
    assert (read_state(tmp_path) is None) is (ended_before == "rename")
    split_state(tmp_path)
    with pytest.raises(StateLogUnusable, match="newer groupferry"):
        read_file(tmp_path)
    async with open_sharded_log(tmp_path, WHOLE, log_id=log_id, run_id=99) as shards:
        assert sorted(await shards.group_ids()) == sorted(GROUP_IDS)
    assert not (tmp_path / f"{SHARDS_FOLDER}.new").exists()


async def test_a_damaged_file_is_not_split(tmp_path: Path) -> None:
    """Its groups must not be forgotten by accident."""
    await fill(tmp_path)
    with (tmp_path / FILE_NAME).open("r+b") as file:
        file.truncate(5_000)
    with pytest.raises(StateLogUnusable):
        split_state(tmp_path)
    assert not (tmp_path / SHARDS_FOLDER).exists()
