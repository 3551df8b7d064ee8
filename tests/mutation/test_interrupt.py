"""Ctrl-C during a mutation run."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

MUTATION = Path(__file__).parent
RUN = """
import sys
from pathlib import Path
from tests.mutation import __main__ as mutation

mutation.ROOT = Path.cwd()
sys.exit(mutation.main())
"""
ENGINE = """
def harmless():
    return 1

def step():
    return 1
"""
TESTS = """
from coordinator.engine import harmless, step

def test_harmless():
    harmless()

def test_step():
    way = 3
    while way:
        way -= step()
        if way < 0:
            open("{endless}", "w").close()
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One mutant survives, and one makes its test endless. The test first opens a FIFO."""
    os.mkfifo(tmp_path / "endless")
    files = {
        "coordinator/__init__.py": "",
        "coordinator/engine.py": ENGINE,
        "tests/coordinator/test_engine.py": TESTS.format(endless=tmp_path / "endless"),
        "tests/mutation/calls.py": (MUTATION / "calls.py").read_text(),
    }
    folder = tmp_path / "repository"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git = shutil.which("git")
    assert git
    for arguments in (["init", "--quiet"], ["add", "."]):
        subprocess.run([git, *arguments], cwd=folder, check=True)
    return folder


def test_ctrl_c_ends_a_run_with_what_it_has_tried(repository: Path, tmp_path: Path) -> None:
    """The mutant under way counts as not tried, and its test ends as well."""
    with subprocess.Popen(
        [sys.executable, "-c", RUN, "--only=coordinator", "--jobs=2", "--seeds=0"],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(MUTATION.parent.parent), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == "a sample of 2 of 2 mutants, seed 1\n"
        assert (
            process.stdout.readline() == "survived: coordinator/engine.py:3 in harmless: 1  ->  2\n"
        )
        (tmp_path / "endless").read_text()  # until the test has begun
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.stdout.read() == (
            "1 of 2 tried: 0 noticed by tests, 0 by the simulator, 0 by the explorer, 0 harmless,"
            " 1 survived\n"
        )
        assert process.stderr.read() == ""
    assert process.returncode == 128 + signal.SIGINT
    assert list(tmp_path.glob("mutation-*")) == []
