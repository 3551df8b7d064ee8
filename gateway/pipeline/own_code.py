"""Sends our packages to Spark's executors, so that they run exactly this code.

Dependencies are not sent: executors need construct and google-re2, which has compiled parts
(gateway/docs/simulator.md).
"""

import sys
from pathlib import Path
from types import ModuleType
from zipfile import ZipFile

from pyspark import SparkContext

import coordinator
import gateway
import kafka_codecs

PACKAGES: tuple[ModuleType, ...] = (gateway, coordinator, kafka_codecs)


def send_own_code(context: SparkContext) -> None:
    """Let executors run Python functions of ours, whatever is installed there."""
    # An executor fetches the archive before its next task, so the archive lives with the session.
    archive = Path(context._temp_dir, "groupferry.zip")
    pack(archive)
    searched = list(sys.path)
    context.addPyFile(str(archive))
    sys.path[:] = searched  # this process imports the installed packages


def send_to_machines(context: SparkContext) -> None:
    """The same, unless all Python functions run on this machine, with the packages of this
    process."""
    if not str(context.master).startswith("local"):
        send_own_code(context)


def pack(archive: Path) -> None:
    """Pack the modules of our packages into a zip file that Python can import from."""
    with ZipFile(archive, "w") as packed:
        for package in PACKAGES:
            folder = Path(package.__path__[0])
            for module in sorted(folder.rglob("*.py")):
                packed.write(module, Path(package.__name__, module.relative_to(folder)))
