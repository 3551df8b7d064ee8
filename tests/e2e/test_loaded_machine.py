"""A roll where everything else wants the processor too.

Native members heartbeat every second here, and librdkafka gives up a heartbeat that takes longer:
what such an answer carried must come again, or the step never settles.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.serve_process import PROGRAM

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

CONSUMERS = 4
BUSY_PER_CPU = 2
ROLL_LIMIT_S = 240


@pytest.fixture
def _load() -> Iterator[None]:
    """Processes that never wait; each ends by itself if nobody ends it."""
    program = (
        f"import time\nend_s = time.monotonic() + {ROLL_LIMIT_S}\n"
        "while time.monotonic() < end_s:\n    pass\n"
    )
    count = BUSY_PER_CPU * (os.cpu_count() or 1)
    busy = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(count)]
    yield
    for process in busy:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("_load")
def test_every_step_of_a_roll_settles_on_a_loaded_machine() -> None:
    """And every record is read: none is lost, none waits in a partition that lies idle."""
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
    told = json.loads(done.stdout)
    kinds = [(step["classic_members"], step["native_members"]) for step in told["steps"]]
    there = [(CONSUMERS - native, native) for native in range(CONSUMERS + 1)]
    assert kinds == [*there, *reversed(there[:-1])]
    assert told["ok"], told["reason"]
