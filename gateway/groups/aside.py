"""Computations that take long, in a thread beside everybody else's requests.

There is one thread for all of them: under the interpreter's lock two would be no faster. Must not
know what is computed.
"""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import trio

SWITCH_INTERVAL_S = 0.001
"""How soon the thread gives way to whoever has something to do. It costs the computation little;
each system call of everybody else waits for it once."""

_T = TypeVar("_T")


class Aside:
    """Runs one computation at a time."""

    def __init__(self) -> None:
        self._turn = trio.Lock()

    async def run(self, compute: Callable[[], _T]) -> _T:
        """What it returns or raises. It goes on when this is cancelled, which waits for it."""
        async with self._turn:
            with _gentle():
                return await trio.to_thread.run_sync(compute)


@contextmanager
def _gentle() -> Iterator[None]:
    """A computation makes much that lives on, and so brings about full garbage collections, which
    stop every thread for as long as they take. What it leaves behind is in no cycles."""
    interval_s, collects = sys.getswitchinterval(), gc.isenabled()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.disable()
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        if collects:
            gc.enable()
