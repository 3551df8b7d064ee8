"""One node of a real Kafka cluster: a Java process with ports and a folder that outlive it.

A test may stop or kill a node and start it again; its port and data stay. `kafka_broker.py` writes
its settings.
"""

import ctypes
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import trio

from tests.support.kafka_release import (
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    KafkaRelease,
)
from tests.support.ports import is_open
from tests.support.until import until

_PR_SET_PDEATHSIG = 1
_LOG_BYTES_SHOWN = 4000


class KafkaNode:
    """A broker or a controller, which is not running at first."""

    def __init__(
        self, release: KafkaRelease, home: Path, settings: Mapping[str, object], port: int
    ) -> None:
        """The node has started once `port` is open."""
        self._release = release
        self._home = home
        self._settings = home / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port
        home.mkdir()
        settings = {**settings, "log.dirs": home / "data"}
        self._settings.write_text("".join(f"{name}={settings[name]}\n" for name in settings))

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def format(self, node_id: int) -> None:
        """Prepare its storage once."""
        self._release.format_storage(self._home / "data", node_id)

    async def start(self) -> None:
        """Start the node and wait until its port is open."""
        self._process = self._spawn()
        with trio.move_on_after(START_TIMEOUT_S):
            await until(lambda: is_open(self.port) or not self.is_running)
            if self.is_running:
                return
        log_end = (self._home / "log").read_text(errors="replace")[-_LOG_BYTES_SHOWN:]
        raise RuntimeError(f"the node at port {self.port} did not start:\n{log_end}")

    async def stop(self) -> None:
        """Shut down with SIGTERM: a broker hands its partitions over first."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        await self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Stop the process with SIGSTOP: its connections stay open without answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill_now(self) -> None:
        """Kill the process at the end of all tests, outside of trio."""
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
            await until(lambda: not self.is_running)

    def _spawn(self) -> subprocess.Popen[bytes]:
        with (self._home / "log").open("ab") as log:
            return subprocess.Popen(
                self._release.command("kafka.Kafka", f"{self._settings}"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C reaches the tests only, which then stop the node
                preexec_fn=_die_with_parent,  # noqa: PLW1509  # the tests may be killed
            )


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
