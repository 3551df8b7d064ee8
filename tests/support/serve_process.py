"""`groupferry serve` as users run it: a process with flags, a JSON log and an exit status."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

from tests.support.clients import read_lines
from tests.support.forked_gateway import ForkedGateway, run_forked_gateway
from tests.support.ports import HOST, free_port

PROGRAM = "import sys; from gateway.cli import main; sys.exit(main())"
_PYTHON = [sys.executable, "-P", "-c", PROGRAM]
_WORDS_OF_PYTHON = len(_PYTHON)
START_LIMIT_S = 60
# Kafka's default timers are too long for tests.
SHORT_TIMERS = (
    "--group-initial-rebalance-delay-ms=500",
    "--group-consumer-heartbeat-interval-ms=500",
    "--group-consumer-min-heartbeat-interval-ms=500",
    "--group-consumer-session-timeout-ms=6000",
    "--group-consumer-min-session-timeout-ms=6000",
    "--group-replacement-grace-ms=500",
    "--group-temporary-assignment-ms=3000",
)

LogLine = dict[str, Any]


class ServeProcess:
    """A gateway process. After a `kill` it can be started again."""

    _process: trio.Process | ForkedGateway

    def __init__(self, nursery: trio.Nursery, command: list[str], bootstrap: str) -> None:
        self._nursery = nursery
        self._command = command
        self.bootstrap = bootstrap
        self.log: list[LogLine] = []
        self.other_lines: list[str] = []
        """Lines of stderr that are not JSON. There are none unless it failed."""
        self._heard = trio.Event()

    async def start(self, program: str = PROGRAM, flags: Sequence[str] = ()) -> None:
        """Start the process without waiting, as another program if one is given, and with these
        flags in addition. A restart continues its log."""
        environment = _without_settings(os.environ)
        python, words = self._command[:_WORDS_OF_PYTHON], self._command[_WORDS_OF_PYTHON:]
        run: Callable[..., Awaitable[object]]
        # Plug-ins are found on a path that the loaded process has not.
        if python == _PYTHON and program == PROGRAM and "PYTHONPATH" not in environment:
            run = partial(run_forked_gateway, program, [*words, *flags], environment)
        else:
            run = partial(
                trio.run_process,
                [word if word != PROGRAM else program for word in (*self._command, *flags)],
                stdin=subprocess.DEVNULL,
                env=environment,
                stderr=subprocess.PIPE,
                check=False,
                deliver_cancel=_kill,
            )
        self._process = await self._nursery.start(run)
        self._nursery.start_soon(self._listen, self._process)

    async def _listen(self, process: trio.Process | ForkedGateway) -> None:
        """Take its log, and wake those who wait for a line once it has ended."""
        await read_lines(process.stderr, self.hear)
        await process.wait()
        self._wake()

    def hear(self, line: str) -> None:
        """Take a line of its log."""
        try:
            self.log.append(json.loads(line))
        except ValueError:
            self.other_lines.append(line)
        self._wake()

    def _wake(self) -> None:
        self._heard.set()
        self._heard = trio.Event()

    def events(self, name: str) -> list[LogLine]:
        return [line for line in self.log if line["event"] == name]

    def print_log(self) -> None:
        """Print what it has written for a failing test, without refusals, which clients cause by
        the hundred."""
        print(*self.other_lines, sep="\n")
        for line in self.log:
            if line["event"] != "request_refused":
                print(json.dumps(line))

    async def until_event(self, name: str, count: int = 1) -> LogLine:
        """Wait until the log has this many of an event, and return the last."""
        while len(self.events(name)) < count:
            assert self._process.returncode is None, self.other_lines
            await self._heard.wait()
        return self.events(name)[count - 1]

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def wait_until_ended(self) -> int:
        """Wait for the process to end by itself, and return its exit status."""
        return await self._process.wait()

    async def last_line(self) -> str:
        """The first line that is not JSON: the reason for its end."""
        while not self.other_lines:
            await self._heard.wait()
        return self.other_lines[0]

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.bootstrap.rpartition(":")
        return host, int(port)

    def limit_files(self, size: int) -> None:
        """Limit the size of its files to this many bytes, as a full disk would. -1 lifts the
        limit."""
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    async def terminate(self) -> int:
        """SIGTERM, then its exit status."""
        self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()


def _without_settings(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The environment without the tests' own variables, because a gateway refuses unknown variables
    with its prefix."""
    return {name: environment[name] for name in environment if not name.startswith("GROUPFERRY_")}


def command(upstream: str, bootstrap: str, state_folder: Path, *flags: str) -> list[str]:
    """The command line of a gateway with short timers."""
    return [
        *_PYTHON,
        "serve",
        f"--upstream={upstream}",
        f"--listen={bootstrap}",
        f"--state-dir={state_folder}",
        "--log-format=json",
        "--groups-host=*",
        *SHORT_TIMERS,
        *flags,
    ]


@asynccontextmanager
async def serving(
    upstream: str,
    state_folder: Path,
    *flags: str,
    bootstrap: str | None = None,
    program: str = PROGRAM,
) -> AsyncIterator[ServeProcess]:
    """Run a gateway for the length of the block, once it serves. Kill it at the end."""
    bootstrap = bootstrap or f"{HOST}:{free_port()}"
    async with trio.open_nursery() as nursery:
        gateway = ServeProcess(
            nursery, command(upstream, bootstrap, state_folder, *flags), bootstrap
        )
        await gateway.start(program)
        with trio.fail_after(START_LIMIT_S):
            await gateway.until_event("gateway_started")
        try:
            yield gateway
        finally:
            gateway.print_log()
        nursery.cancel_scope.cancel()


async def _kill(process: trio.Process) -> None:
    process.kill()
