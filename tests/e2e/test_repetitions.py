"""Failures by timers and load are repeated; a broken promise is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.promises import PromiseBroken

ROOT = Path(__file__).parents[2]
FAILING = """
import pytest, trio
from tests.support.promises import promise

@pytest.mark.kafka
async def test_it():
    async with trio.open_nursery(), trio.open_nursery():
        {fails}
"""


@pytest.mark.parametrize(
    ("fails", "seen"), [("promise(False, 'lost')", "1 failed in"), ("assert 0", "2 rerun in")]
)
def test_only_a_broken_promise_is_final(tmp_path: Path, fails: str, seen: str) -> None:
    """Also one that was broken within nurseries, whose type is that of an exception group."""
    test = tmp_path / "test_it.py"
    test.write_text(FAILING.format(fails=fails))
    options = ("-p", "tests.conftest", "-p", "no:cacheprovider", "-c", "pyproject.toml")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(test)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert seen in done.stdout
    assert (PromiseBroken.__name__ in done.stdout) == ("promise" in fails)
