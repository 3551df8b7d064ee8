"""One child process of the demo: started, read line by line, asked to end, always reaped.

Closing the child's stdin asks it to end. The kernel does the same when this process dies. The child
has its own process group, so Ctrl-C on the terminal reaches only the parent.
"""

import signal
import subprocess
import sys
from collections.abc import Callable

import structlog
import trio

from gateway.demo.errors import DemoError

LINE_BYTES_MAX = 1 << 20

log = structlog.get_logger()


class Child:
    """A running child process."""

    def __init__(self, process: trio.Process, name: str) -> None:
        self._process = process
        self._name = name
        self.ended = trio.Event()
        self.asked_to_end = False
        self.last_error = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask_to_end(self) -> None:
        """Ask the child to close cleanly. It may report for a while longer."""
        self.asked_to_end = True
        assert isinstance(self._process.stdin, trio.lowlevel.FdStream)
        self._process.stdin.close()

    async def finish(self, limit_s: float) -> None:
        """Ask the child to end, and wait for it. Raises DemoError if it takes longer."""
        self.ask_to_end()
        with trio.move_on_after(limit_s):
            await self.ended.wait()
            return
        raise DemoError(f"{self._name} did not close within {limit_s:.0f} s")

    def ended_in_good_order(self) -> bool:
        """Whether the child ended without trouble because it was asked to."""
        return self.asked_to_end and self._process.returncode == 0

    def describe_exit(self) -> str:
        """A few words on how the child ended."""
        status = self._process.returncode
        assert status is not None
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return f"{how}: {self.last_error}" if self.last_error else how


async def run_child(
    module: str,
    arguments: list[str],
    *,
    name: str,
    on_line: Callable[[str], None],
    task_status: trio.TaskStatus[Child] = trio.TASK_STATUS_IGNORED,
) -> Child:
    """Run `python -m module` until it ends, passing all its lines to `on_line`.

    When cancelled or on any error, kills and reaps the child.
    """
    command = [sys.executable, "-P", "-m", module, *arguments]
    process = await trio.lowlevel.open_process(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )
    child = Child(process, name)

    def complain(line: str) -> None:
        child.last_error = line
        log.debug("child_complained", child=name, text=line)

    assert process.stdout is not None
    assert process.stderr is not None
    try:
        task_status.started(child)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read_lines, process.stdout, on_line)
            nursery.start_soon(_read_lines, process.stderr, complain)
        await process.wait()
    finally:
        with trio.CancelScope(shield=True):
            process.kill()
            await process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                assert pipe is not None
                await pipe.aclose()
    child.ended.set()
    return child


async def _read_lines(stream: trio.abc.ReceiveStream, on_line: Callable[[str], None]) -> None:
    pending = b""
    async for chunk in stream:
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            on_line(line.decode(errors="replace"))
        if len(pending) > LINE_BYTES_MAX:
            raise DemoError(f"a child wrote a line of more than {LINE_BYTES_MAX} bytes")
    if pending:
        on_line(pending.decode(errors="replace"))
