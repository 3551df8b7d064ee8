"""One lookup in the cluster for all who ask meanwhile: a thousand members of a group may join at
the same time, and an answer may grow with their number."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import trio

from gateway.cluster.errors import UpstreamError

_V = TypeVar("_V")


class _Lookup(Generic[_V]):
    """A lookup that is under way. It ends without an outcome if the task that runs it is
    cancelled."""

    def __init__(self) -> None:
        self.ended = trio.Event()
        self.outcome: list[_V] = []
        self.error: str | None = None


class SharedLookups(Generic[_V]):
    """The lookups that are under way, by key. There are no more than tasks that wait for one."""

    def __init__(self) -> None:
        self._under_way: dict[str, _Lookup[_V]] = {}

    async def run(self, key: str, look_up: Callable[[], Awaitable[_V]]) -> _V:
        """Wait for the lookup of this key that is under way, or run one. Raises UpstreamError."""
        while (lookup := self._under_way.get(key)) is not None:
            await lookup.ended.wait()
            if lookup.error is not None:
                raise UpstreamError(lookup.error)  # a new one, not to share a traceback
            for outcome in lookup.outcome:
                return outcome
        lookup = self._under_way[key] = _Lookup()
        try:
            outcome = await look_up()
            lookup.outcome.append(outcome)
        except UpstreamError as error:
            lookup.error = str(error)
            raise
        finally:
            del self._under_way[key]
            lookup.ended.set()
        return outcome
