"""Folders with a state file: their content, and processes that die during a write."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.interface.records import DurableRecord, TargetAssignmentMetadata
from gateway.state_log.log import StateLogUnusable
from gateway.state_log.sqlite import open_sqlite_log

_WRITE_AND_DIE = """
import os, signal, sys, trio
from pathlib import Path
from coordinator.interface.records import TargetAssignmentMetadata
from gateway.state_log.sqlite import open_sqlite_log

async def main():
    async with open_sqlite_log(Path(sys.argv[1])) as log:
        for epoch in range(int(sys.argv[2])):
            await log.append("g%d" % (epoch % 7), [TargetAssignmentMetadata(epoch=epoch)])
        os.kill(os.getpid(), signal.SIGKILL)

trio.run(main)
"""


def epoch(number: int) -> DurableRecord:
    """A small record that differs for each number."""
    return TargetAssignmentMetadata(epoch=number)


async def stored_groups(folder: Path) -> dict[str, tuple[DurableRecord, ...]]:
    """The content that a starting gateway would find."""
    async with open_sqlite_log(folder) as log:
        return {group_id: tuple(await log.read(group_id)) for group_id in await log.group_ids()}


async def refusal(folder: Path) -> str:
    """The line with which a gateway refuses to start. It names the folder."""
    with pytest.raises(StateLogUnusable) as refused:
        await stored_groups(folder)
    (line,) = str(refused.value).splitlines()
    assert str(folder) in line
    return line


def killed_writer(folder: Path, transactions: int) -> None:
    """Leave the files of a gateway that was killed after this many transactions."""
    done = subprocess.run(
        [sys.executable, "-c", _WRITE_AND_DIE, str(folder), str(transactions)], check=False
    )
    assert done.returncode == -signal.SIGKILL
