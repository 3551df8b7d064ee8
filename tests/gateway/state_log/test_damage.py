"""A damaged state file is refused or intact, and never silently wrong."""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from coordinator.interface.records import DurableRecord
from gateway.state_log.log import StateLogUnusable
from gateway.state_log.sqlite import open_sqlite_log

FILES = ("state.sqlite", "state.sqlite-wal", "state.sqlite-shm", "state.sqlite-mark")
CASES = 10
"""The number of cases per file and kind of damage."""

# Enough that SQLite has moved a part into the database file, and the rest is in the write-ahead
# log.
WRITE_AND_DIE = """
import os, signal, sys, trio
from pathlib import Path
from gateway.state_log import sqlite_writer
from gateway.state_log.sqlite import open_sqlite_log
from tests.support.durable_records import RECORDS, TOMBSTONES

async def main():
    async with open_sqlite_log(Path(sys.argv[1])) as log:
        log._writer._connection.execute("PRAGMA wal_autocheckpoint = 60")
        for number in range(150):
            await log.append("g%d" % (number % 40), list(RECORDS.values()))
            if number % 10 == 3:
                await log.append("g%d" % (number % 40), list(TOMBSTONES.values()))
        os.kill(os.getpid(), signal.SIGKILL)

trio.run(main)
"""

Damage = Callable[[Path, random.Random], None]
Groups = Mapping[str, tuple[DurableRecord, ...]]


async def stored_groups(folder: Path) -> Groups:
    """The content that a starting gateway would find."""
    async with open_sqlite_log(folder) as log:
        return {group_id: tuple(await log.read(group_id)) for group_id in await log.group_ids()}


async def outcome(folder: Path) -> Groups | str:
    """The content, or the reason why the gateway does not start."""
    try:
        return await stored_groups(folder)
    except StateLogUnusable as refused:
        return str(refused)


def cut(path: Path, dice: random.Random) -> None:
    """Truncate the file at a random place."""
    os.truncate(path, dice.randrange(path.stat().st_size))


def flip(path: Path, dice: random.Random) -> None:
    """Change one bit."""
    data = bytearray(path.read_bytes())
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def smear(path: Path, dice: random.Random) -> None:
    """Overwrite a range with zeros, like lost sectors, or with noise."""
    data = bytearray(path.read_bytes())
    start, size = dice.randrange(len(data)), dice.choice((16, 512, 4096))
    stretch = data[start : start + size]
    data[start : start + size] = dice.choice((bytes(len(stretch)), dice.randbytes(len(stretch))))
    path.write_bytes(data)


@pytest.fixture(scope="module")
def killed_gateway(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a gateway that was killed."""
    folder = tmp_path_factory.mktemp("killed")
    done = subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(folder)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert {file.name for file in folder.iterdir()} == set(FILES)
    assert (folder / "state.sqlite").stat().st_size > 40_000
    return folder


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [cut, flip, smear])
async def test_damage_is_refused_or_harmless(
    killed_gateway: Path, tmp_path: Path, name: str, damage: Damage
) -> None:
    """Each case damages one place of one file. Its number is its seed."""
    shutil.copytree(killed_gateway, tmp_path / "whole")
    expected = await stored_groups(tmp_path / "whole")
    assert len(expected) > 30
    refused = 0
    for seed in range(CASES):
        folder = tmp_path / f"{seed}"
        shutil.copytree(killed_gateway, folder)
        damage(folder / name, random.Random(seed))
        result = await outcome(folder)
        if isinstance(result, str):
            refused += 1
            assert len(result.splitlines()) == 1
        else:
            assert result == expected, f"{damage} of {name}, seed {seed}"
    if name == "state.sqlite-shm":
        assert refused == 0, "it is rebuilt from the others"
    else:
        assert refused > 0
