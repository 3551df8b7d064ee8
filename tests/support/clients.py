"""The real clients of the tests, each a child process that reports in the demo's format.

Their programs are in `tests/clients/`; librdkafka uses the demo's own consumer.
"""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import trio

from gateway.demo.group_view import Protocol
from tests.support.client_programs import SCRIPTS, Library, Program, program

COMPLAINTS_MAX = 50
CLOSE_LIMIT_S = 20
HANGING = (sys.executable, str(SCRIPTS / "hanging_program.py"))
"""Runs a Python client so that it can hang, see `run_client`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client library, speaking one of the two protocols with one assignor's name."""

    library: Library
    version: str = ""
    """The version; the pinned one if empty."""
    protocol: Protocol = "classic"
    assignor: str = "range"

    def __str__(self) -> str:
        named = f"{self.library} {self.version}" if self.version else self.library
        return f"{named} {self.assignor if self.protocol == 'classic' else self.protocol}"

    def program(self) -> Program:
        """Return its program, installed."""
        return program(self.library, self.version)


class ClientProcess:
    """A running client."""

    def __init__(self, process: trio.Process, name: str) -> None:
        self._process = process
        self._name = name
        self.ended = trio.Event()
        self.ended_s = 0.0
        """When the process has ended, by `time.monotonic`."""
        self.client_warnings: deque[str] = deque(maxlen=COMPLAINTS_MAX)
        """The last lines of its stderr."""

    async def close(self) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.aclose()
        with trio.move_on_after(CLOSE_LIMIT_S):
            await self.ended.wait()
            return
        raise AssertionError(f"{self._name} did not close: {list(self.client_warnings)}")

    async def kill(self) -> None:
        """Kill the process with SIGKILL, and wait until it is dead."""
        self._process.kill()
        await self.ended.wait()

    def pause(self) -> None:
        """Pause the process with SIGSTOP. It sends no heartbeats, and its connections stay open."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def hang(self) -> None:
        """Stop polling for good. The client's own threads continue. Only a Java client can, and a
        Python one within `HANGING`."""
        self._process.send_signal(signal.SIGUSR2)

    @property
    def fate(self) -> str:
        """The client's exit status and its last lines."""
        return f"{self._name}: exit status {self._process.returncode}, {list(self.client_warnings)}"


async def run_client(
    client: Client,
    arguments: list[str],
    *,
    name: str,
    on_line: Callable[[str], None],
    within: Sequence[str] = (),
    task_status: trio.TaskStatus[ClientProcess] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a client until it has ended and all its lines were read. Cancelling kills it. `within` is
    a command that runs the client's, such as `env`."""
    started = await trio.to_thread.run_sync(client.program)
    arguments = [*arguments, f"--protocol={client.protocol}", f"--assignor={client.assignor}"]
    async with trio.open_nursery() as nursery:
        process: trio.Process = await nursery.start(
            partial(
                trio.run_process,
                [*within, *started.command, *arguments, f"--client-id={name}"],
                env={**os.environ, **started.environment},
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
            reading.start_soon(read_lines, process.stderr, running.client_warnings.append)
        await process.wait()
    running.ended_s = time.monotonic()
    running.ended.set()


async def read_lines(stream: trio.abc.ReceiveStream | None, on_line: Callable[[str], None]) -> None:
    """Pass on each line of a stream."""
    assert stream is not None
    rest = b""
    async for chunk in stream:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            on_line(line.decode(errors="replace"))


async def _kill(process: trio.Process) -> None:
    process.kill()
