"""A roll on a loaded machine.

Native members send a heartbeat every second here, and librdkafka abandons one that takes longer.
The content of such an answer must be repeated, or the step never settles.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.installs import HEAVY, one_at_a_time
from tests.support.serve_process import PROGRAM

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

CONSUMERS = 4
BUSY = 3
ROLL_LIMIT_S = 240


@pytest.fixture
def _load() -> Iterator[None]:
    """Processes that keep one processor busy, on which the demo runs as well. Each ends by itself.
    Tests that depend on the times of answers wait meanwhile."""
    program = (
        f"import time\nend_s = time.monotonic() + {ROLL_LIMIT_S}\n"
        "while time.monotonic() < end_s:\n    pass\n"
    )
    processors = os.sched_getaffinity(0)
    with one_at_a_time(HEAVY):
        os.sched_setaffinity(0, {min(processors)})  # children inherit it
        busy = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(BUSY)]
        yield
        for process in busy:
            process.kill()
            process.wait()
        os.sched_setaffinity(0, processors)


@pytest.mark.usefixtures("_load")
def test_every_step_of_a_roll_settles_on_a_loaded_machine() -> None:
    """Every record is read. None is lost or waits in a partition without an owner."""
    done = subprocess.run(
        [
            *(sys.executable, "-c", PROGRAM, "demo", "--json", "--log-level=error"),
            *(f"--consumers={CONSUMERS}", "--partitions=8"),
        ],
        capture_output=True,
        text=True,
        timeout=ROLL_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    kinds = [(step["classic_members"], step["native_members"]) for step in summary["steps"]]
    there = [(CONSUMERS - native, native) for native in range(CONSUMERS + 1)]
    assert kinds == [*there, *reversed(there[:-1])]
    assert summary["ok"], summary["reason"]
