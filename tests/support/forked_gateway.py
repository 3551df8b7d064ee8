"""Gateways that are forked from a process with their modules, whose program is
`gateway_template.py`: loading these takes most of the processor time of a start, and tests start
hundreds. `test_serve.py` and `test_cli.py` start gateways as users do.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import trio

_PROGRAM = Path(__file__).with_name("gateway_template.py")


class ForkedGateway:
    """A gateway that was started, with what tests need of `trio.Process`."""

    def __init__(
        self, pid: int, stderr: trio.abc.ReceiveStream, end: trio.abc.ReceiveStream
    ) -> None:
        self.pid = pid
        self.stderr = stderr
        self._end = end
        self._has_ended = trio.Lock()
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            if self.returncode is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        async with self._has_ended:
            if self.returncode is None:
                self.returncode = await _number(self._end)
        return self.returncode


async def run_forked_gateway(
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    task_status: trio.TaskStatus[ForkedGateway] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run this Python program with these arguments until it has ended. Cancelling kills it."""
    our_stderr, its_stderr = os.pipe()
    our_end, its_end = os.pipe()
    order = {
        "program": program,
        "arguments": arguments,
        "environment": dict(environment),
        "folder": f"{Path.cwd()}",
    }
    try:
        socket.send_fds(_orders(), [json.dumps(order).encode()], [its_stderr, its_end])
    finally:
        os.close(its_stderr)
        os.close(its_end)
    stderr = trio.lowlevel.FdStream(our_stderr)  # a reader continues to its end
    async with trio.lowlevel.FdStream(our_end) as end:
        with trio.CancelScope(shield=True):
            gateway = ForkedGateway(await _number(end), stderr, end)
        task_status.started(gateway)
        try:
            await gateway.wait()
        finally:
            with trio.CancelScope(shield=True):
                gateway.kill()
                await gateway.wait()


async def _number(lines: trio.abc.ReceiveStream) -> int:
    """Read the next line, which is written immediately."""
    line = await lines.receive_some()
    assert line, "the process that forks gateways has ended"
    return int(line)


@cache
def _orders() -> socket.socket:
    """The socket of the process that forks gateways. It ends with this process."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        subprocess.Popen(
            [sys.executable, "-P", _PROGRAM, f"{its.fileno()}"],
            stdin=subprocess.DEVNULL,
            pass_fds=[its.fileno()],
        )
    return ours
