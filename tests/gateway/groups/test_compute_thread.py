"""Long computations in a thread, while the event loop continues."""

import gc
import sys
import threading

import pytest
import trio

from gateway.groups.compute_thread import SWITCH_INTERVAL_S, ComputeThread


async def test_the_event_loop_runs_during_a_computation() -> None:
    """The computation ends only because a task of the event loop allows it."""
    may_end = threading.Event()

    async def let_it_end() -> None:
        may_end.set()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(let_it_end)
            assert await ComputeThread().run(lambda: may_end.wait(10))


async def test_computations_take_turns() -> None:
    """Two threads would share the interpreter lock, and finish no sooner."""
    compute_thread, running, highest = ComputeThread(), 0, 0

    def compute() -> None:
        nonlocal running, highest
        running += 1
        highest = max(highest, running)
        threading.Event().wait(0.01)
        running -= 1

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(compute_thread.run, compute)
    assert highest == 1


async def test_a_failed_computation_restores_the_interpreter() -> None:
    """During the computation only, the interpreter switches threads sooner and skips garbage
    collection."""
    before = (sys.getswitchinterval(), gc.isenabled())

    def compute() -> None:
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
        assert not gc.isenabled()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ComputeThread().run(compute)
    assert (sys.getswitchinterval(), gc.isenabled()) == before
