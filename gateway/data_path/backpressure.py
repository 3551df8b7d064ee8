"""How long relayed bytes have waited because their receiver takes no more."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import trio

Receiver = Literal["client", "broker"]


class BackpressureTimes:
    """How long senders have waited for slow receivers, over all connections."""

    def __init__(self) -> None:
        self._ended_s: dict[Receiver, float] = {"client": 0.0, "broker": 0.0}
        self._since_s: dict[object, tuple[Receiver, float]] = {}
        """The waits under way: at most one for each direction of a connection."""

    @contextmanager
    def waits(self, receiver: Receiver) -> Iterator[None]:
        """Count the length of the block."""
        wait, began_s = object(), trio.current_time()
        self._since_s[wait] = receiver, began_s
        try:
            yield
        finally:
            del self._since_s[wait]
            self._ended_s[receiver] += trio.current_time() - began_s

    def totals_s(self) -> Mapping[Receiver, float]:
        """The seconds up to now, summed over connections."""
        totals = dict(self._ended_s)
        now_s = trio.current_time()
        for receiver, since_s in self._since_s.values():
            totals[receiver] += now_s - since_s
        return totals
