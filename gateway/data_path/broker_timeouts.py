"""Gives up on brokers that take too long to answer.

One task checks the deadlines of all requests, because a cancel scope for each would cost as much
as the request itself.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

import trio

CHECK_INTERVAL_S = 0.5
"""How often the deadlines are checked, and so how late a request may be given up."""


class BrokerWait(Protocol):
    """A request that a broker has not answered yet."""

    is_over: bool


class BrokerTimeouts:
    """The deadlines of all requests to brokers, oldest request first, which is nearly the order of
    the deadlines."""

    def __init__(self) -> None:
        self._waits: deque[tuple[float, BrokerWait, Callable[[], object]]] = deque()

    @property
    def count(self) -> int:
        """The number of requests with a deadline."""
        return len(self._waits)

    def wait(self, wait: BrokerWait, until_s: float, give_up: Callable[[], object]) -> None:
        """Call `give_up` if the wait is not over at `until_s`."""
        self._drop_done()
        self._waits.append((until_s, wait, give_up))

    async def run(self) -> None:
        """Check the deadlines until cancelled."""
        while True:
            await trio.sleep(CHECK_INTERVAL_S)
            self._drop_done()
            while self._waits and self._waits[0][0] <= trio.current_time():
                _at_s, _wait, give_up = self._waits.popleft()
                give_up()
                self._drop_done()

    def _drop_done(self) -> None:
        while self._waits and self._waits[0][1].is_over:
            self._waits.popleft()
