"""The names of all topics of a cluster, kept up to date for as long as somebody wants them.

A look at them costs what the cluster is large, so that it is taken neither often nor in vain. Must
not know what the names are for.
"""

import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from uuid import UUID

import trio

from gateway.cluster.errors import UpstreamError

SHARE_OF_TIME = 20
"""After a look nobody looks for so many times as long as it took."""

Look = Callable[[], Awaitable[Mapping[UUID, str]]]
"""Asks the cluster for the names of all its topics, by id. Raises UpstreamError."""


class TopicNames:
    """`run` looks again while somebody wants the names; `get` has them at once, or looks."""

    def __init__(self, look: Look, *, interval_s: float) -> None:
        self._look = look
        self._interval_s = interval_s
        self._turn = trio.Lock()
        self._next_look_s = -math.inf
        self._failure: UpstreamError | None = None
        self._wanted = trio.Event()
        self.by_id: Mapping[UUID, str] = {}
        """What the last look saw."""
        self.version = 0
        """Grows whenever a name appears: the wall-clock millisecond when it was seen, so that it
        does not fall over a restart."""

    async def get(self) -> Mapping[UUID, str]:
        """The names by id, as they were not long ago. Raises UpstreamError."""
        async with self._turn:
            if trio.current_time() >= self._next_look_s:
                await self._look_now()
        if self._failure is not None:
            raise UpstreamError(str(self._failure))
        return self.by_id

    def want(self) -> None:
        """Let a further look be taken, when it is time for one; `version` tells if it was worth
        it. Who wants to be kept up to date asks again and again."""
        self._wanted.set()

    async def run(self) -> None:
        """Look while somebody wants it, for ever."""
        while True:
            await self._wanted.wait()
            await trio.sleep_until(self._next_look_s)
            self._wanted = trio.Event()
            with contextlib.suppress(UpstreamError):
                await self.get()

    async def _look_now(self) -> None:
        started_s = trio.current_time()
        try:
            seen = await self._look()
        except UpstreamError as failure:
            self._failure = failure
        else:
            self._failure = None
            if not set(self.by_id.values()).issuperset(seen.values()):
                self.version = max(self.version + 1, time.time_ns() // 1_000_000)
            self.by_id = seen
        ended_s = trio.current_time()
        pause_s = max(self._interval_s, SHARE_OF_TIME * (ended_s - started_s))
        self._next_look_s = ended_s + pause_s
