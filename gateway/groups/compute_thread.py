"""Runs long computations in a thread, so that the event loop keeps serving other requests.

One thread serves all groups: under the interpreter's lock a second one would gain nothing.
"""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import trio

SWITCH_INTERVAL_S = 0.001
"""How soon the thread yields the interpreter's lock to the event loop. A short interval costs the
computation little, but each system call of the event loop may wait this long."""

_T = TypeVar("_T")


class ComputeThread:
    """A worker thread that runs one computation at a time."""

    def __init__(self) -> None:
        self._turn = trio.Lock()

    async def run(self, compute: Callable[[], _T]) -> _T:
        """Return or raise what `compute` does. A cancelled caller still waits for the thread."""
        async with self._turn:
            with _yielding_often():
                return await trio.to_thread.run_sync(compute)


@contextmanager
def _yielding_often() -> Iterator[None]:
    """Switch threads often, and collect no garbage: a long computation allocates many long-lived
    objects, which would trigger full collections that stop every thread. None of those objects
    are in cycles."""
    interval_s, collects = sys.getswitchinterval(), gc.isenabled()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.disable()
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        if collects:
            gc.enable()
