"""The real clients of the tests, each as a child process that reports in the demo's own words.

Knows how each client is started; what it does then is in `tests/clients/`, and for librdkafka in
the demo's own consumer.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import trio

from gateway.demo.group_view import Protocol
from tests.support.kafka_jars import kafka_jars
from tests.support.node import node
from tests.support.requirements import missing

SCRIPTS = Path(__file__).parent.parent / "clients"
COMPLAINTS_MAX = 50
CLOSE_LIMIT_S = 20
JAVA_CLIENT_RELEASE = "4.3"
JAVA_OPTIONS = (
    *("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)

Library = Literal["librdkafka", "kafka-python", "aiokafka", "kafkajs", "platformatic", "java"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client library, speaking one of the two protocols with one assignor's name."""

    library: Library
    protocol: Protocol = "classic"
    assignor: str = "range"

    def __str__(self) -> str:
        return f"{self.library} {self.protocol}"

    def command(self) -> list[str]:
        """The command without the arguments that every client has."""
        match self.library:
            case "librdkafka":
                program = [sys.executable, "-P", "-m", "gateway.demo.consumer"]
            case "kafka-python" | "aiokafka":
                script = SCRIPTS / f"{self.library.replace('-', '_')}_consumer.py"
                program = [sys.executable, "-P", str(script)]
            case "kafkajs" | "platformatic":
                script = SCRIPTS / "node" / f"{self.library}_consumer.cjs"
                program = [str(node().binary), str(script)]
            case "java":
                if shutil.which("javac") is None:
                    missing("a JDK, to compile the Java client")
                script = SCRIPTS / "java" / "JavaConsumer.java"
                classes = f"{kafka_jars(JAVA_CLIENT_RELEASE)}/*"
                program = ["java", *JAVA_OPTIONS, "-cp", classes, str(script)]
        return [*program, f"--protocol={self.protocol}", f"--assignor={self.assignor}"]

    def environment(self) -> dict[str, str]:
        """The variables it runs with."""
        if self.library in ("kafkajs", "platformatic"):
            return node().environment()
        return dict(os.environ)


class ClientProcess:
    """A running client."""

    def __init__(self, process: trio.Process, name: str) -> None:
        self._process = process
        self._name = name
        self.ended = trio.Event()
        self.complaints: deque[str] = deque(maxlen=COMPLAINTS_MAX)
        """The last lines of its stderr."""

    async def close(self) -> None:
        """Let it leave in good order."""
        assert self._process.stdin is not None
        await self._process.stdin.aclose()
        with trio.move_on_after(CLOSE_LIMIT_S):
            await self.ended.wait()
            return
        raise AssertionError(f"{self._name} did not close: {list(self.complaints)}")

    async def kill(self) -> None:
        """SIGKILL; it is dead when this returns."""
        self._process.kill()
        await self.ended.wait()

    def pause(self) -> None:
        """SIGSTOP: it neither beats nor notices; its connections stay open."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    @property
    def fate(self) -> str:
        """How it ended and what it said last."""
        return f"{self._name}: exit status {self._process.returncode}, {list(self.complaints)}"


async def run_client(
    client: Client,
    arguments: list[str],
    *,
    name: str,
    on_line: Callable[[str], None],
    task_status: trio.TaskStatus[ClientProcess] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a client until it has ended and all its lines were heard; cancelled, it is killed."""
    command = await trio.to_thread.run_sync(client.command)
    async with trio.open_nursery() as nursery:
        process: trio.Process = await nursery.start(
            partial(
                trio.run_process,
                [*command, *arguments, f"--client-id={name}"],
                env=client.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                check=False,
                deliver_cancel=_kill,
            )
        )
        running = ClientProcess(process, name)
        task_status.started(running)
        async with trio.open_nursery() as reading:
            reading.start_soon(read_lines, process.stdout, on_line)
            reading.start_soon(read_lines, process.stderr, running.complaints.append)
        await process.wait()
    running.ended.set()


async def read_lines(stream: trio.abc.ReceiveStream | None, on_line: Callable[[str], None]) -> None:
    """Pass on each line of a stream, until its end."""
    assert stream is not None
    kept = b""
    async for chunk in stream:
        *lines, kept = (kept + chunk).split(b"\n")
        for line in lines:
            on_line(line.decode(errors="replace"))


async def _kill(process: trio.Process) -> None:
    process.kill()
