"""Garbage and Ctrl-C during an import, where Python itself may swallow the latter."""

import gc
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.loading import loading

# Ctrl-C comes during the search for a module of the commands. In a callback of importlib or of a
# weak reference it is "ignored"; in `__set_name__` it becomes a RuntimeError (Python 3.11).
INTERRUPTED = """
import signal, sys, weakref

signal.signal(signal.SIGINT, signal.{handler})

def interrupt(*_):
    signal.raise_signal(signal.SIGINT)

class Field:
    __set_name__ = interrupt

def in_a_weak_reference():
    dead = Field()
    kept = weakref.ref(dead, interrupt)
    del dead

def in_set_name():
    type("Owner", (), dict(field=Field()))

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            in_{place}()

sys.meta_path.insert(0, Finder())
from gateway.cli import main
sys.exit(main({arguments}))
"""


def run_interrupted(
    place: str, module: str, *arguments: str, handler: str = "default_int_handler"
) -> "subprocess.CompletedProcess[str]":
    """Run the command, with Ctrl-C during the search for the module."""
    program = INTERRUPTED.format(place=place, module=module, arguments=arguments, handler=handler)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


def test_garbage_is_collected_after_loading_only() -> None:
    """Even if a module cannot be loaded. What was loaded is exempt from then on."""

    def load() -> None:
        with loading():
            assert not gc.isenabled()
            raise ImportError

    exempt = gc.get_freeze_count()
    with pytest.raises(ImportError):
        load()
    assert gc.isenabled()
    assert gc.get_freeze_count() > exempt


@pytest.mark.parametrize("place", ["a_weak_reference", "set_name"])
def test_ctrl_c_ends_the_command_during_any_import(place: str) -> None:
    """Ctrl-C is neither swallowed nor an error with a traceback."""
    done = run_interrupted(place, "gateway.commands.dispatch", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "")


@pytest.mark.spark
@pytest.mark.parametrize("place", ["a_weak_reference", "set_name"])
def test_ctrl_c_ends_it_while_spark_loads(place: str, tmp_path: Path) -> None:
    """PySpark takes longer to load than everything else."""
    where = ("--master", "local[1]", "--output", str(tmp_path / "output"))
    done = run_interrupted(place, "pyspark.sql", "report", ".", *where)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "")


def test_a_process_that_ignores_ctrl_c_continues() -> None:
    """A shell starts background jobs this way."""
    done = run_interrupted("set_name", "gateway.commands.dispatch", "--version", handler="SIG_IGN")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_that_asks_the_gateway_loads_no_engine() -> None:
    """The engine would take longer to load than the gateway to answer."""
    program = (
        "import sys, gateway.cli, gateway.commands.dispatch, gateway.commands.show_board;"
        "sys.exit(sorted({'coordinator.engine', 'gateway.hosting.group', 'kafka_codecs.apis'}"
        " & sys.modules.keys()) or None)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
