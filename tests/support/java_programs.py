"""Java programs of one file, in `tests/clients/java`. Java would compile them at each start, which
takes longer than most of them run, so this is done once per machine."""

import shutil
from functools import partial
from pathlib import Path

from tests.support.installs import install_once, run
from tests.support.requirements import missing

JAVA_OPTIONS = (
    *("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
PROGRAMS = Path(__file__).parents[1] / "clients" / "java"


def java_program(name: str, class_path: str) -> tuple[str, ...]:
    """The command that runs the program of this name with these jars."""
    source = PROGRAMS / f"{name}.java"
    compile_it = partial(_compile, source, class_path)
    folder = install_once(f"java-{name}", source.read_bytes() + class_path.encode(), compile_it)
    return ("java", *JAVA_OPTIONS, "-cp", f"{class_path}:{folder}", name)


def _compile(source: Path, class_path: str, folder: Path) -> None:
    if shutil.which("javac") is None:
        missing("a program in Java needs a JDK")
    javac = ("javac", "-J-XX:TieredStopAtLevel=1", "-proc:none")
    run([*javac, "-cp", class_path, "-d", f"{folder}", f"{source}"])
