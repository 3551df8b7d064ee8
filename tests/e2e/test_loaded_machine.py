"""A roll with a gateway that often has to wait for a processor.

Native members send a heartbeat every second here, and librdkafka abandons one that takes longer.
The content of such an answer must be repeated, or the step never settles.
"""

import json
import signal
import subprocess
import sys
from functools import partial

import pytest
import trio

from tests.support.serve_process import PROGRAM

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

CONSUMERS = 4
ROLL_LIMIT_S = 240
PAUSED_S = 1.6
"""Longer than the interval of heartbeats."""
RUNNING_S = 1.2


async def pause_often(gateway: trio.Process) -> None:
    """Pause the process again and again. The test then needs no processor for a load."""
    while gateway.poll() is None:
        gateway.send_signal(signal.SIGSTOP)
        await trio.sleep(PAUSED_S)
        gateway.send_signal(signal.SIGCONT)
        await trio.sleep(RUNNING_S)


async def test_every_step_of_a_roll_settles_on_a_loaded_machine() -> None:
    """Every record is read. None is lost or waits in a partition without an owner. The gateway runs
    in the demo's own process."""
    command = [
        *(sys.executable, "-c", PROGRAM, "demo", "--json", "--log-level=error"),
        *(f"--consumers={CONSUMERS}", "--partitions=8"),
    ]
    ended: list[subprocess.CompletedProcess[bytes]] = []

    async def roll(task_status: trio.TaskStatus[trio.Process]) -> None:
        run = partial(trio.run_process, capture_stdout=True, capture_stderr=True, check=False)
        ended.append(await run(command, task_status=task_status))

    with trio.fail_after(ROLL_LIMIT_S):
        async with trio.open_nursery() as nursery:
            await pause_often(await nursery.start(roll))
    (done,) = ended
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    kinds = [(step["classic_members"], step["native_members"]) for step in summary["steps"]]
    there = [(CONSUMERS - native, native) for native in range(CONSUMERS + 1)]
    assert kinds == [*there, *reversed(there[:-1])]
    assert summary["ok"], summary["reason"]
