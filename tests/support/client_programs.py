"""Installs and starts each client library, in the pinned version or another.

The pins are in constraints.txt, and in pom.xml, package.json, go.mod and Cargo.toml in
`tests/clients/`. Other versions are installed next to them on demand.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Literal

from tests.support.installs import install_once, run
from tests.support.java_programs import JAVA_OPTIONS, java_program
from tests.support.kafka_jars import copy_jars, require_java
from tests.support.requirements import missing

SCRIPTS = Path(__file__).parent.parent / "clients"
CLASSES = "classes.jsa"
# Install without scripts: the packages need none, and a machine may forbid them.
NPM_INSTALL = ("install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
GO_MODULES = {
    "franz-go": "github.com/twmb/franz-go",
    "sarama": "github.com/IBM/sarama",
    "kafka-go": "github.com/segmentio/kafka-go",
    "kadm": "github.com/twmb/franz-go/pkg/kadm",
}
FRANZ_GO_WITH_NEW_PROTOCOL = (1, 22)

ProducerLibrary = Literal[
    "librdkafka",
    "java",
    "kafka-python",
    "aiokafka",
    "kafkajs",
    "platformatic",
    "franz-go",
    "sarama",
    "kafka-go",
]
"""The clients that can produce. They can consume, too."""
Library = Literal[ProducerLibrary, "confluent-rust", "kadm", "reference"]
"""`kadm` is franz-go's admin client, and no consumer; `reference` is the project's own, for
what no released client can do."""


Role = Literal["consumer", "producer", "scenarios"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A client that can be started."""

    command: tuple[str, ...]
    package: str
    version: str
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables in addition to those of this process."""


@cache
def program(library: Library, version: str = "", role: Role = "consumer") -> Program:
    """Return the client, and install it if necessary; the pinned version unless one is named.

    Skips the test if a required tool is missing, and fails it in CI.
    """
    match library:
        case "librdkafka" if role == "consumer":
            return _in_python("confluent-kafka", version, ("-m", "gateway.demo.consumer"))
        case "librdkafka" | "kafka-python" | "aiokafka":
            package = "confluent-kafka" if library == "librdkafka" else library
            script = SCRIPTS / f"{library.replace('-', '_')}_{role}.py"
            return _in_python(package, version, (str(script),))
        case "reference":
            return _in_python("groupferry", "", (str(SCRIPTS / "reference_consumer.py"),))
        case "kafkajs" | "platformatic":
            name = "kafkajs" if library == "kafkajs" else "@platformatic/kafka"
            return _in_node(name, version, SCRIPTS / "node" / f"{library}_{role}.cjs")
        case "java":
            return _in_java(version) if role == "consumer" else _java_producer(version)
        case "franz-go" | "sarama" | "kafka-go" | "kadm":
            main = library if role == "consumer" else f"{library}-{role}"
            return _in_go(library, version, main)
        case "confluent-rust":
            return _in_rust()


def _in_python(package: str, version: str, arguments: tuple[str, ...]) -> Program:
    environment: dict[str, str] = {}
    if version not in ("", metadata.version(package)):
        requirement = f"{package}=={version}"
        install = partial(_install_python, requirement)
        folder = install_once(f"{package}-{version}", sys.version.encode(), install)
        others = os.environ.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{folder}:{others}" if others else str(folder)
    return Program(
        command=(sys.executable, "-P", *arguments),
        package=package,
        version=version or metadata.version(package),
        environment=environment,
    )


def _install_python(requirement: str, folder: Path) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--prefer-binary")
    run([*pip, f"--target={folder}", requirement])


def _in_node(package: str, version: str, script: Path) -> Program:
    npm = shutil.which("npm")
    if npm is None:
        missing("the Node clients need npm")
    wanted = f"{package}@{version}" if version else ""
    source = SCRIPTS / "node" / "package.json"
    name = f"node-{package.rpartition('/')[2]}-{version}" if version else "node"
    folder = install_once(name, source.read_bytes(), partial(_install_node, npm, source, wanted))
    modules = folder / "node_modules"
    binary = next(iter(sorted(modules.glob("node-*/bin/node"))), None)
    if binary is None:
        missing("npm has no Node binary for this machine")
    about = json.loads((modules / package / "package.json").read_text())
    return Program(
        command=(str(binary), str(script)),
        package=package,
        version=about["version"],
        environment={"NODE_PATH": str(modules)},
    )


def _install_node(npm: str, source: Path, wanted: str, folder: Path) -> None:
    shutil.copy(source, folder)
    run([npm, *NPM_INSTALL, "--loglevel=error", *([wanted] if wanted else [])], cwd=folder)


def _in_java(version: str) -> Program:
    require_java()
    javac = shutil.which("javac")
    if javac is None:
        missing("the Java client needs a JDK")
    names = ("pom.xml", "JavaConsumer.java", *(() if version else ("WeightedAssignor.java",)))
    sources = tuple(SCRIPTS / "java" / name for name in names)
    name = f"java-client-{version}" if version else "java-client"
    content = b"".join(source.read_bytes() for source in sources)
    folder = install_once(name, content, partial(_install_java, javac, sources, version))
    (jar,) = folder.glob("kafka-clients-*.jar")
    consumer = ("-cp", f"{folder}/*", "JavaConsumer")
    archive: tuple[str, ...] = ()
    if not version:  # others seldom run
        # An archive names its jars, so it is written once they have their place.
        archived = install_once(f"{name}-classes", content, partial(_archive_classes, consumer))
        archive = (f"-XX:SharedArchiveFile={archived / CLASSES}",)
    return Program(
        command=("java", *JAVA_OPTIONS, *archive, *consumer),
        package="kafka-clients",
        version=jar.stem.removeprefix("kafka-clients-"),
    )


def _java_producer(version: str) -> Program:
    """The producer has a file of its own: the consumer needs Kafka 2.0."""
    require_java()
    pom = SCRIPTS / "java" / "pom.xml"
    choices = [f"-Dkafka-clients.version={version}"] if version else []
    name = f"java-jars-{version}" if version else "java-jars"
    folder = install_once(name, pom.read_bytes(), partial(copy_jars, pom, choices))
    (jar,) = folder.glob("kafka-clients-*.jar")
    return Program(
        command=java_program("JavaProducer", f"{folder}/*"),
        package="kafka-clients",
        version=jar.stem.removeprefix("kafka-clients-"),
    )


def _install_java(javac: str, sources: tuple[Path, ...], version: str, folder: Path) -> None:
    pom, *scripts = sources
    copy_jars(pom, [f"-Dkafka-clients.version={version}"] if version else [], folder)
    classes = folder / "classes"
    run([javac, "-cp", f"{folder}/*", "-d", str(classes), *map(str, scripts)])
    # The JVM archives no classes of a folder.
    jar = Path(javac).with_name("jar")
    run([str(jar), "--create", "--file", str(folder / "consumer.jar"), "-C", str(classes), "."])


def _archive_classes(consumer: tuple[str, ...], folder: Path) -> None:
    """Keep the classes that a consumer has loaded when its stdin ends immediately: loading them is
    half of its start."""
    archive = f"-XX:ArchiveClassesAtExit={folder / CLASSES}"
    nowhere = ("--bootstrap=127.0.0.1:1", "--topic=t", "--group=g", "--client-id=c")
    native = ("--protocol=consumer", "--assignor=")
    run(["java", *JAVA_OPTIONS, archive, *consumer, *nowhere, *native])


def _in_go(library: str, version: str, main: str) -> Program:
    """`main` is the folder of the program."""
    go = shutil.which("go")
    if go is None:
        missing(f"{library} needs Go")
    source = SCRIPTS / "go"
    files = sorted(path for path in source.rglob("*") if path.is_file())
    content = b"".join(path.read_bytes() for path in files)
    name = f"{main}-{version}" if version else main
    install = partial(_install_go, go, source, library, version, main)
    folder = install_once(name, content, install)
    return Program(
        command=(str(folder / "consumer"),),
        package=library,
        version=(folder / "version").read_text(),
    )


def _install_go(go: str, source: Path, library: str, version: str, main: str, folder: Path) -> None:
    shutil.copytree(source, folder, dirs_exist_ok=True)
    module = GO_MODULES[library]
    if version:
        run([go, "get", f"{module}@v{version}"], cwd=folder)
    run([go, "mod", "tidy"], cwd=folder)
    listed = run([go, "list", "-m", "-f", "{{.Version}}", module], cwd=folder)
    (folder / "version").write_text(listed.strip().removeprefix("v"))
    is_old = library == "franz-go" and _numbers(listed) < FRANZ_GO_WITH_NEW_PROTOCOL
    tags = "classic" if is_old else ""
    run([go, "build", "-tags", tags, "-o", "consumer", f"./{main}"], cwd=folder)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.strip().removeprefix("v").split("."))


def _in_rust() -> Program:
    cargo = shutil.which("cargo")
    if cargo is None:
        missing("Confluent's Rust client needs Cargo")
    source = SCRIPTS / "rust"
    content = b"".join(path.read_bytes() for path in (source / "Cargo.toml", *source.rglob("*.rs")))
    folder = install_once("rust", content, partial(_install_rust, cargo, source))
    return Program(
        command=(str(folder / "consumer"),),
        package="Confluent's Rust client",
        version=(folder / "version").read_text(),
    )


def _install_rust(cargo: str, source: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as build:
        shutil.copytree(source, build, dirs_exist_ok=True)
        run([cargo, "build", "--quiet"], cwd=Path(build))
        package_id = run([cargo, "pkgid", "confluent-kafka"], cwd=Path(build))
        (folder / "version").write_text(package_id.strip().rpartition("@")[2])
        shutil.copy(Path(build, "target", "debug", "consumer"), folder)
