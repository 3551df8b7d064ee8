"""Sends our own packages to Spark's executors, so that they compute with exactly this code.

What the packages import from others cannot come this way: construct and google-re2, which has
compiled parts, have to be where the executors are (gateway/docs/simulator.md).
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
    """From here on Python functions of ours run on executors, whatever is installed there."""
    # Each executor fetches it before its next task, whenever that is: it goes with the session.
    archive = Path(context._temp_dir, "groupferry.zip")
    pack(archive)
    searched = list(sys.path)
    context.addPyFile(str(archive))
    sys.path[:] = searched  # this process has the real ones


def pack(archive: Path) -> None:
    """The modules of all our packages, as Python imports them from a zip file."""
    with ZipFile(archive, "w") as packed:
        for package in PACKAGES:
            folder = Path(package.__path__[0])
            for module in sorted(folder.rglob("*.py")):
                packed.write(module, Path(package.__name__, module.relative_to(folder)))
