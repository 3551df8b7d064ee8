"""One node of a real Kafka cluster: a Java process with ports and a folder that outlive it.

A node is stopped or killed and started again as often as a test likes; ports and data stay. It
must not know the cluster it is in: whoever makes it writes its settings.
"""

import contextlib
import ctypes
import random
import signal
import socket
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import trio

HOST = "127.0.0.1"
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60
_LOOK_INTERVAL_S = 0.05
_PR_SET_PDEATHSIG = 1
_JAVA_OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOG_BYTES_SHOWN = 4000
# Below those that the system gives to whoever connects: one of these, taken while its broker is
# down, would keep the broker from coming back.
_PORTS = range(10_000, 32_768)


class KafkaNode:
    """A broker or a controller, not running at first."""

    def __init__(self, jars: Path, home: Path, settings: Mapping[str, object], port: int) -> None:
        """`port` is the one that shows by its being open that the node has started."""
        self._jars = jars
        self._home = home
        self._settings = home / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port
        home.mkdir()
        settings = {**settings, "log.dirs": home / "data"}
        self._settings.write_text("".join(f"{name}={settings[name]}\n" for name in settings))

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    def format(self, cluster_id: str, node_id: int) -> None:
        """Prepare its storage, once, as Kafka's storage tool does for a broker, but quicker."""
        (self._home / "data").mkdir()
        properties = f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\n"
        (self._home / "data" / "meta.properties").write_text(properties)

    def format_with_features(self, cluster_id: str) -> None:
        """Prepare the storage of a controller, with the features of its release."""
        done = subprocess.run(
            self._java("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c"),
            capture_output=True,
            text=True,
            timeout=START_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"the storage was not formatted:\n{done.stdout}{done.stderr}")

    async def start(self) -> None:
        """Start it, again or for the first time, and wait until its port is open."""
        self._process = self._spawned()
        with trio.move_on_after(START_TIMEOUT_S):
            while self.is_running:
                if _is_open(self.port):
                    return
                await trio.sleep(_LOOK_INTERVAL_S)
        log_end = (self._home / "log").read_text(errors="replace")[-_LOG_BYTES_SHOWN:]
        raise RuntimeError(f"the node at port {self.port} did not start:\n{log_end}")

    async def stop(self) -> None:
        """End it in good order: a broker hands its partitions over first."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """End it with SIGKILL."""
        await self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Let it hang, with SIGSTOP: its connections stay open, and nobody answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def kill_now(self) -> None:
        """The same, at the end of everything and outside of trio."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def _end(self, how: signal.Signals) -> None:
        assert self._process is not None
        self._signal(how)
        with trio.fail_after(STOP_TIMEOUT_S):
            while self._process.poll() is None:  # noqa: ASYNC110  # the process is not trio's
                await trio.sleep(_LOOK_INTERVAL_S)

    def _spawned(self) -> subprocess.Popen[bytes]:
        with (self._home / "log").open("ab") as log:
            return subprocess.Popen(
                self._java("kafka.Kafka"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C is for the tests, which then stop it
                preexec_fn=_die_with_parent,  # noqa: PLW1509  # the tests' own process may be killed
            )

    def _java(self, main: str, *arguments: str) -> list[str]:
        command = ["java", *_JAVA_OPTIONS, "-cp", f"{self._jars}/*", main, *arguments]
        return [*command, f"{self._settings}"]


def free_ports(count: int) -> list[int]:
    """So many ports that nobody listens at now."""
    ports: list[int] = []
    with ExitStack() as stack:
        while len(ports) < count:
            port = random.choice(_PORTS)
            probe = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                ports.append(port)
    return ports


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
