"""A child process is read, asked to end, and never left behind."""

import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs

from gateway.demo import child as child_module
from gateway.demo.child import Child, run_child
from gateway.demo.errors import DemoError

LIMIT_S = 20

SAYS_AND_WAITS = """
import sys
print("hello", flush=True)
sys.stdin.read()
print("bye")
"""
FAILS = """
import sys
print("unfinished", end="")
sys.exit("no such luck")
"""
DEAF = """
import time
print("hello", flush=True)
time.sleep(600)
"""
TALKS_TOO_LONG = """
import sys
sys.stdout.write("x" * 300)
sys.stdout.flush()
sys.stdin.read()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Modules":
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return Modules(tmp_path)


class Modules:
    """Creates modules that children can run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, source: str) -> str:
        """Write a module and return its name."""
        (self._folder / "child_under_test.py").write_text(source)
        return "child_under_test"


def is_alive(pid: int) -> bool:
    """Whether a process has this id, even as a zombie."""
    return Path(f"/proc/{pid}").exists()


async def test_all_lines_of_a_child_are_read(module: Modules) -> None:
    """Closing its stdin asks it to end, and its last lines are still read."""
    lines: list[str] = []
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            child: Child = await nursery.start(
                partial(run_child, module(SAYS_AND_WAITS), [], name="c", on_line=lines.append)
            )
            await child.finish(LIMIT_S)
    assert lines == ["hello", "bye"]
    assert child.asked_to_end
    assert child.describe_exit() == "exit status 0"
    assert not is_alive(child.pid)


async def test_the_last_line_of_stderr_is_the_reason_of_an_end(module: Modules) -> None:
    """Stderr is logged, including a line without a line break."""
    lines: list[str] = []
    with capture_logs() as logged, trio.fail_after(LIMIT_S):
        child = await run_child(module(FAILS), [], name="c", on_line=lines.append)
    assert lines == ["unfinished"]
    assert child.describe_exit() == "exit status 1: no such luck"
    assert not child.asked_to_end
    assert [entry["text"] for entry in logged] == ["no such luck"]


async def test_a_killed_child_is_reported_as_killed(module: Modules) -> None:
    """The report has the signal."""
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            child: Child = await nursery.start(
                partial(run_child, module(DEAF), [], name="c", on_line=lambda _: None)
            )
            os.kill(child.pid, signal.SIGKILL)
            await child.ended.wait()
    assert child.describe_exit() == "SIGKILL"


async def test_cancelling_kills_and_reaps(module: Modules) -> None:
    """No process is left behind, however the run ends."""
    heard = trio.Event()
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            child: Child = await nursery.start(
                partial(run_child, module(DEAF), [], name="c", on_line=lambda _: heard.set())
            )
            await heard.wait()
            assert is_alive(child.pid)
            nursery.cancel_scope.cancel()
    assert not is_alive(child.pid)


async def test_a_child_that_does_not_close_in_time_is_an_error(module: Modules) -> None:
    """The error ends the run, which kills the child."""
    with trio.fail_after(LIMIT_S):
        with pytest.RaisesGroup(pytest.RaisesExc(DemoError, match="c did not close within 0 s")):
            async with trio.open_nursery() as nursery:
                child: Child = await nursery.start(
                    partial(run_child, module(DEAF), [], name="c", on_line=lambda _: None)
                )
                await child.finish(0.01)
    assert not is_alive(child.pid)


async def test_a_line_without_end_is_limited(
    module: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The buffer has a limit."""
    monkeypatch.setattr(child_module, "LINE_BYTES_MAX", 100)
    with trio.fail_after(LIMIT_S):
        with pytest.RaisesGroup(pytest.RaisesExc(DemoError, match="more than 100 bytes")):
            await run_child(module(TALKS_TOO_LONG), [], name="c", on_line=lambda _: None)


async def test_a_child_ends_when_its_parent_is_killed(module: Modules, tmp_path: Path) -> None:
    """The kernel closes the pipe of its parent."""
    parent = tmp_path / "parent_under_test.py"
    parent.write_text(
        "import trio\n"
        "from functools import partial\n"
        "from gateway.demo.child import run_child\n"
        "async def main():\n"
        "    async with trio.open_nursery() as nursery:\n"
        f"        run = partial(run_child, {module(SAYS_AND_WAITS)!r}, [], name='c',\n"
        "                      on_line=lambda _: print(child.pid, flush=True))\n"
        "        child = await nursery.start(run)\n"
        "trio.run(main)\n"
    )
    process = await trio.lowlevel.open_process([sys.executable, str(parent)], stdout=-1)
    assert process.stdout is not None
    with trio.fail_after(LIMIT_S):
        pid = int(await process.stdout.receive_some())
        orphan = os.pidfd_open(pid)
        process.kill()
        await process.wait()
        await process.stdout.aclose()
        await trio.lowlevel.wait_readable(orphan)  # it has ended
        os.close(orphan)
