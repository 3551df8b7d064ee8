"""Requirements of tests may be missing, but not in CI."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import requirements
from tests.support.requirements import LEFT_OUT, missing

TESTS = Path(__file__).parents[1]
SKIPPED_IN_NURSERIES = """
import pytest, trio
from tests.support.requirements import missing

@pytest.mark.trio
async def test_it():
    async with trio.open_nursery(), trio.open_nursery():
        missing("needs npm")
"""
PATH = os.pathsep.join(sys.path)
SKIPS = re.compile(r"importorskip\(|pytest\.skip\(|mark\.skip")


@pytest.mark.parametrize(
    ("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)]
)
def test_a_missing_requirement_skips_a_test_and_fails_it_in_ci(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is given in either case."""
    monkeypatch.setenv("CI", ci)
    monkeypatch.delenv(LEFT_OUT, raising=False)
    with pytest.raises(outcome, match="needs npm"):
        missing("needs npm")


def test_ci_skips_only_the_tests_of_the_extra_that_it_leaves_to_another_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another extra, and what is part of none, fail."""
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv(LEFT_OUT, "pipeline")
    with pytest.raises(pytest.skip.Exception):
        missing("needs pyspark", extra="pipeline")
    for extra in ("", "connect"):
        with pytest.raises(pytest.fail.Exception):
            missing("needs it", extra=extra)


def test_a_skip_within_nurseries_keeps_its_reason(tmp_path: Path) -> None:
    """pytest-trio drops it."""
    (tmp_path / "test_it.py").write_text(SKIPPED_IN_NURSERIES)
    done = subprocess.run(
        [*(sys.executable, "-m", "pytest", "-rs", "-p", "tests.conftest"), tmp_path / "test_it.py"],
        env={**os.environ, "CI": "", "PYTEST_ADDOPTS": "", "PYTHONPATH": PATH},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ": needs npm\n" in done.stdout, done.stdout


def test_nothing_else_skips_a_test() -> None:
    """A skip that CI does not know would hide a test that never runs."""
    modules = set(TESTS.rglob("*.py")) - {Path(__file__), Path(requirements.__file__)}
    assert [path for path in modules if SKIPS.search(path.read_text())] == []
