"""Failures by timers and load are repeated; a broken promise is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import RERUNS
from tests.support.promises import EXIT_STATUS

ROOT = Path(__file__).parents[2]
FAILING = """
import pytest, trio
from tests.support.promises import promise

@pytest.mark.kafka
async def test_it():
    async with trio.open_nursery(), trio.open_nursery():
        {fails}
"""


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("fails", "seen", "status"),
    [
        ("promise(False, 'lost')", "1 failed in", EXIT_STATUS),
        ("assert 0", f"{RERUNS} rerun in", pytest.ExitCode.TESTS_FAILED),
    ],
)
def test_only_a_broken_promise_is_final(
    tmp_path: Path, fails: str, seen: str, status: int, workers: int
) -> None:
    """A promise may also be broken within nurseries, as part of an exception group. CI repeats no
    test after this exit status."""
    test = tmp_path / "test_it.py"
    test.write_text(FAILING.format(fails=fails))
    options = ("-p", "tests.conftest", "-p", "no:cacheprovider", "-c", "pyproject.toml")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-n", str(workers), str(test)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert seen in done.stdout
    assert done.returncode == status
