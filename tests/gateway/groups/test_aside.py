"""Long computations beside the requests of everybody else."""

import gc
import sys
import threading

import pytest
import trio

from gateway.groups.aside import SWITCH_INTERVAL_S, Aside


async def test_the_event_loop_runs_while_something_is_computed() -> None:
    """The computation ends only because a task of the loop lets it."""
    may_end = threading.Event()

    async def let_it_end() -> None:
        may_end.set()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(let_it_end)
            assert await Aside().run(lambda: may_end.wait(10))


async def test_computations_take_turns() -> None:
    """Two threads would share one interpreter lock, and finish no sooner."""
    aside, running, most = Aside(), 0, 0

    def compute() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        threading.Event().wait(0.01)
        running -= 1

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(aside.run, compute)
    assert most == 1


async def test_the_interpreter_is_as_before_when_a_computation_has_failed() -> None:
    """It gives way sooner and collects no garbage only for as long as the computation takes."""
    before = (sys.getswitchinterval(), gc.isenabled())

    def compute() -> None:
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
        assert not gc.isenabled()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Aside().run(compute)
    assert (sys.getswitchinterval(), gc.isenabled()) == before
