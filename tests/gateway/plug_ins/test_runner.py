"""Plug-ins run in processes of their own, within limits."""

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from coordinator.interface.events import AssignmentReceived
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import Computation
from gateway.groups.compute_thread import ComputeThread
from gateway.plug_ins import runner
from gateway.plug_ins.runner import PlugIns
from gateway.settings_sources import ENVIRONMENT_PREFIX
from tests.support.plug_ins import FOO, computation, install
from tests.support.until import until

Install = Callable[[Mapping[str, str]], None]
TAKES_ALL = """
from coordinator.interface.topics import Partition
def assign(spec):
    return {"m1": {Partition(t, n) for t, c in spec.partition_counts.items() for n in range(c)}}
"""


@pytest.fixture
def install_assignor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs assignors, which have time on a busy machine."""
    monkeypatch.setattr(runner, "TIME_LIMIT_S", 55)
    return lambda sources: install(tmp_path, sources, monkeypatch)


async def ask(question: Computation) -> AssignmentReceived:
    return await PlugIns(ComputeThread(), ENVIRONMENT_PREFIX).compute(question)


async def test_a_plug_in_computes_a_target(install_assignor: Install) -> None:
    """The group may be large: a pipe holds 64 KiB."""
    install_assignor({"takes-all": TAKES_ALL})
    received = await ask(computation("takes-all", partition_count=20_000))
    everything = frozenset(Partition(FOO, number) for number in range(20_000))
    assert received == AssignmentReceived(epoch=7, target={"m1": everything})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise RuntimeError('first line\\nsecond')", "RuntimeError: first line second"),
        ("import os; os._exit(3)", "its process ended with status 3"),
        ("import sys; sys.exit(4)", "its process ended with status 4"),
        ("bytearray(2**33)", "MemoryError"),
        ("import os; os.write(3, b'[]'); os._exit(0)", "the answer is malformed"),
        ("import os; os.write(3, b'{}'); os._exit(0)", "the answer is malformed"),
    ],
)
async def test_a_failure_is_one_line(install_assignor: Install, body: str, reason: str) -> None:
    """The group hears it, and keeps its target."""
    install_assignor({"bad": f"def assign(spec):\n    {body}\n"})
    received = await ask(computation("bad"))
    assert received.failure.strip() in (reason, f"{reason}:")
    assert received.target == {}


async def test_a_plug_in_that_hangs_is_killed(
    install_assignor: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if it never gives up the interpreter's lock."""
    begun: list[trio.Process] = []
    real = trio.lowlevel.open_process

    async def open_process(*args: Any, **how: Any) -> trio.Process:
        begun.append(await real(*args, **how))
        return begun[-1]

    install_assignor({"hangs": "import re\ndef assign(spec):\n    re.match('(a+)+b', 'a' * 100)\n"})
    monkeypatch.setattr(trio.lowlevel, "open_process", open_process)
    monkeypatch.setattr(runner, "TIME_LIMIT_S", 2)
    received = await ask(computation("hangs"))
    assert received.failure == "no answer within 2 s"
    assert [process.returncode for process in begun] == [-signal.SIGKILL]


async def test_a_huge_answer_is_cut_off(
    install_assignor: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is not read to its end."""
    install_assignor({"takes-all": TAKES_ALL})
    monkeypatch.setattr(runner, "ANSWER_BYTES_MAX", 1_000)
    received = await ask(computation("takes-all", partition_count=20_000))
    assert received.failure == "the answer is longer than 1000 bytes"


async def test_prints_and_secrets(
    install_assignor: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plug-in may print, and does not see the gateway's variables."""
    monkeypatch.setenv("GROUPFERRY_UPSTREAM_SASL_PASSWORD", "secret")
    source = (
        "import os\n"
        "def assign(spec):\n"
        "    print('noise', flush=True)\n"
        "    return {k: [] for k in os.environ if k.startswith('GROUPFERRY_')}\n"
    )
    install_assignor({"prints": source})
    assert await ask(computation("prints")) == AssignmentReceived(epoch=7)


async def test_further_groups_wait_their_turn(
    install_assignor: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bounded number of processes runs at a time, and each answer finds its question."""
    running = highest = 0
    real = runner._ask

    async def count_running(question: bytes, environment: Mapping[str, str]) -> bytes:
        nonlocal running, highest
        running += 1
        highest = max(highest, running)
        try:
            return await real(question, environment)
        finally:
            running -= 1

    monkeypatch.setattr(runner, "_ask", count_running)
    monkeypatch.setattr(runner, "PROCESSES_MAX", 2)
    install_assignor({"takes-all": TAKES_ALL})
    plug_ins, heard = PlugIns(ComputeThread(), ENVIRONMENT_PREFIX), dict[int, int]()

    async def compute(epoch: int) -> None:
        question = computation("takes-all", epoch=epoch, partition_count=epoch)
        received = await plug_ins.compute(question)
        heard[received.epoch] = len(received.target["m1"])

    async with trio.open_nursery() as nursery:
        for epoch in range(1, 6):
            nursery.start_soon(compute, epoch)
    assert heard == {epoch: epoch for epoch in range(1, 6)}
    assert highest == 2


async def test_a_plug_in_that_hangs_holds_up_no_other(
    install_assignor: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plug-in may be that of any number of groups."""
    monkeypatch.setattr(runner, "PROCESSES_MAX", 1)
    install_assignor({"hangs": "import time\ndef assign(spec):\n    time.sleep(600)\n"})
    install_assignor({"takes-all": TAKES_ALL})
    plug_ins = PlugIns(ComputeThread(), ENVIRONMENT_PREFIX)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(plug_ins.compute, computation("hangs"))
        await wait_all_tasks_blocked()
        assert (await plug_ins.compute(computation("takes-all"))).target
        nursery.cancel_scope.cancel()


async def test_a_cancelled_computation_leaves_no_process(
    install_assignor: Install, tmp_path: Path
) -> None:
    """The group was loaded again, or the gateway ends."""
    pid_file = tmp_path / "pid"
    source = (
        "import os, time\n"
        "def assign(spec):\n"
        f"    open({str(pid_file)!r}, 'w').write(str(os.getpid()))\n"
        "    time.sleep(60)\n"
    )
    install_assignor({"sleeps": source})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, computation("sleeps"))
        await until(lambda: pid_file.exists() and pid_file.read_text())
        nursery.cancel_scope.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
