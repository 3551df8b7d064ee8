"""The jars of Apache Kafka that tests run, fetched with Maven; `kafka/pom.xml` has the versions."""

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from tests.support.installs import INSTALL_LIMIT_S, install_once, run
from tests.support.requirements import missing

POM = Path(__file__).parent / "kafka" / "pom.xml"
FETCH_TIMEOUT_S = INSTALL_LIMIT_S
FIRST_JAVA_VERSION = 17


def kafka_jars(release: str) -> Path:
    """The folder with the jars of one release, fetched if this machine does not have them yet."""
    require_java()
    fetch = partial(copy_jars, POM, [f"--activate-profiles=kafka-{release}"])
    return install_once(f"kafka-{release}", POM.read_bytes(), fetch)


@cache
def require_java() -> None:
    """Java and Maven are there, and Java is new enough for Apache Kafka."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            missing(f"Apache Kafka needs {tool}")
    shown = subprocess.run(
        ["java", "-XshowSettings:properties", "-version"],  # noqa: S607, RUF100  # from the path
        capture_output=True,
        text=True,
        check=False,
    ).stderr
    versions = [line for line in shown.splitlines() if "java.specification.version =" in line]
    version = versions[0].rpartition("=")[2].strip() if versions else "0"
    if int(version.partition(".")[0]) < FIRST_JAVA_VERSION:
        missing(f"Apache Kafka needs Java {FIRST_JAVA_VERSION}; this is {version}")


def copy_jars(pom: Path, choices: Sequence[str], folder: Path) -> None:
    """Copy what a pom depends on to run; `choices` are more arguments for Maven."""
    command = ["mvn", "--quiet", "--batch-mode", f"--file={pom}", *choices]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    run([*command, "-DincludeScope=runtime"])
