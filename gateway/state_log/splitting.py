"""Splits the file of a single gateway into the shards of a fleet. Blocking.

The new folder appears in one step. The old file stays readable, and is marked so that a groupferry
that knows nothing of shards refuses it.
"""

import shutil
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

from gateway.fleet.fleet_state import (
    SHARDS_FOLDER,
    FleetState,
    open_state,
    read_state,
    shard_folder,
    write_state,
)
from gateway.fleet.member import SHARDS, shard_of
from gateway.state_folder import sync_names
from gateway.state_log import sqlite_layout, sqlite_reader
from gateway.state_log.log import StateLogUnusable
from gateway.state_log.sqlite_writer import GroupWrite, SqliteWriter

SPLIT_FORMAT = 1_000
"""The format number of a file whose groups are in shards: no groupferry reads it."""


def split_state(folder: Path) -> None:
    """Split the state file of a folder into shards, unless it has been. A folder without one gets
    the file of a new fleet. Lock the folder first. Raises StateLogUnusable, StateFolderError."""
    try:
        if read_state(folder) is None:
            _split(folder)
        _retire(folder / sqlite_layout.FILE_NAME)
    except (OSError, sqlite3.Error) as error:
        raise StateLogUnusable(_unsplit(folder, error)) from None


def _unsplit(folder: Path, failure: Exception) -> str:
    return f"cannot split the state in {folder}, make room there and start again: {failure}"


def _split(folder: Path) -> None:
    stored = sqlite_reader.read_state(folder)
    if stored is None:
        write_state(folder, open_state(folder, 0))
        return
    shards: defaultdict[int, list[GroupWrite]] = defaultdict(list)
    for row in stored.rows:
        shards[shard_of(row.group_id, SHARDS)].append(GroupWrite(row.group_id, [row.entry]))
    new_folder = folder / f"{SHARDS_FOLDER}.new"
    shutil.rmtree(new_folder, ignore_errors=True)
    for shard, writes in shards.items():
        place = shard_folder(new_folder, shard)
        place.mkdir(parents=True)
        with closing(SqliteWriter.open(place, None)) as writer:
            for failure in filter(None, writer.write(writes)):
                raise StateLogUnusable(_unsplit(folder, failure))
    # Runs continue after those of the single gateway, whose anchors may still hold its groups.
    runs = stored.head.transactions + 1
    state = FleetState(log_id=stored.head.log_id, shards=SHARDS, slots=0, runs=runs)
    new_folder.mkdir(exist_ok=True)
    write_state(new_folder, state)
    (new_folder / SHARDS_FOLDER).rename(folder / SHARDS_FOLDER)
    new_folder.rmdir()
    sync_names(folder)


def _retire(path: Path) -> None:
    """Mark a state file as split, or make one that is, so that an older groupferry refuses the
    folder."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        if connection.execute("PRAGMA user_version").fetchone() != (SPLIT_FORMAT,):
            connection.execute(f"PRAGMA application_id = {sqlite_layout.APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SPLIT_FORMAT}")
