"""Failures by timers and load are repeated; a broken promise is not."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import RERUNS
from tests.support.promises import EXIT_STATUS

ROOT = Path(__file__).parents[2]
FAILING = """
import pytest, trio
from tests.support.promises import promise

@pytest.mark.kafka
async def test_a_promise():
    async with trio.open_nursery(), trio.open_nursery():
        promise(False, 'lost')

@pytest.mark.kafka
async def test_a_time():
    async with trio.open_nursery(), trio.open_nursery():
        assert 0
"""


def test_only_a_broken_promise_is_final(tmp_path: Path) -> None:
    """A promise may also be broken within nurseries, as part of an exception group, and in a
    worker. CI repeats no test after this exit status."""
    test = tmp_path / "test_it.py"
    test.write_text(FAILING)
    options = ("-p", "tests.conftest", "-p", "no:cacheprovider", "-c", "pyproject.toml")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-n", "1", str(test)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert f"2 failed, {RERUNS} rerun in" in done.stdout
    assert done.returncode == EXIT_STATUS
