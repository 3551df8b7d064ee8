"""The jars of Apache Kafka that tests run: fetched once with Maven into the user's cache folder.

`kafka/pom.xml` says which versions. Without Java or Maven the tests skip, in CI they fail.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.requirements import missing

POM = Path(__file__).parent / "kafka" / "pom.xml"
FETCH_TIMEOUT_S = 600
FIRST_JAVA_VERSION = 17


def kafka_jars(release: str) -> Path:
    """The folder with the jars of one release, fetched if this machine does not have them yet."""
    _require_java()
    pom = POM.read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    jars = cache / "groupferry-tests" / f"kafka-{release}-{hashlib.sha256(pom).hexdigest()[:12]}"
    if not jars.exists():
        _fetch(release, jars)
    return jars


def _require_java() -> None:
    if shutil.which("java") is None:
        missing("a Java runtime, for Apache Kafka")
    shown = subprocess.run(
        ["java", "-XshowSettings:properties", "-version"],  # noqa: S607, RUF100  # from the path
        capture_output=True,
        text=True,
        check=False,
    ).stderr
    found = [line for line in shown.splitlines() if "java.specification.version =" in line]
    version = found[0].rpartition("=")[2].strip() if found else "0"
    if int(version.partition(".")[0]) < FIRST_JAVA_VERSION:
        missing(f"Java {FIRST_JAVA_VERSION}, for Apache Kafka; this is {version}")


def _fetch(release: str, jars: Path) -> None:
    if shutil.which("mvn") is None:
        missing("Maven, to fetch Apache Kafka")
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jars.parent, prefix="fetching-") as folder:
        fetched = Path(folder) / "jars"
        command = [
            "mvn",
            "--quiet",
            "--batch-mode",
            f"--file={POM}",
            f"--activate-profiles=kafka-{release}",
        ]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={fetched}"]
        command += ["-DincludeScope=runtime"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
        if done.returncode:
            missing(f"the jars of Apache Kafka {release}: {done.stdout.strip()[-2000:]}")
        if not jars.exists():  # another run may have been quicker
            fetched.rename(jars)
