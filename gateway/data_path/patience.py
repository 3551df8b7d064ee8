"""Ends what waits for a broker for too long.

One task looks after all waits: a deadline of Trio's own for each would cost as much as the request.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

import trio

LOOK_S = 0.5
"""How often the task looks, and so how much longer a wait may last than its limit."""


class Wait(Protocol):
    """Something that a broker has to answer."""

    is_over: bool


class Patience:
    """The waits, in the order of their beginning, which is nearly that of their ends."""

    def __init__(self) -> None:
        self._waits: deque[tuple[float, Wait, Callable[[], object]]] = deque()

    @property
    def count(self) -> int:
        """The waits that are remembered."""
        return len(self._waits)

    def wait(self, wait: Wait, until_s: float, give_up: Callable[[], object]) -> None:
        """Call `give_up` if the wait is not over by then."""
        self._drop_done()
        self._waits.append((until_s, wait, give_up))

    async def run(self) -> None:
        """Look after the waits until cancelled."""
        while True:
            await trio.sleep(LOOK_S)
            self._drop_done()
            while self._waits and self._waits[0][0] <= trio.current_time():
                _at_s, _wait, give_up = self._waits.popleft()
                give_up()
                self._drop_done()

    def _drop_done(self) -> None:
        while self._waits and self._waits[0][1].is_over:
            self._waits.popleft()
