"""The calls to one group that the cluster answers, which an adoption of the group waits for."""

import contextlib
from collections.abc import Iterator
from weakref import WeakSet

import trio

from gateway.hosting.calls import Call


class RelayedCalls:
    """Counts a call from the moment when it is decided that the cluster answers it."""

    def __init__(self) -> None:
        self._calls: WeakSet[Call] = WeakSet()
        self._ended = trio.lowlevel.ParkingLot()

    def add(self, call: Call) -> None:
        """Count a call until `end`, or until nothing refers to it."""
        self._calls.add(call)

    def end(self, call: Call) -> None:
        """Note that the cluster has answered a call, or that its client no longer waits."""
        self._calls.discard(call)
        self._ended.unpark_all()

    @contextlib.contextmanager
    def under_way(self, call: Call) -> Iterator[None]:
        """Count a call for the length of the block."""
        self.add(call)
        try:
            yield
        finally:
            self.end(call)

    async def until_none(self) -> None:
        """Wait until the cluster has answered all calls."""
        while self._calls:
            await self._ended.park()
