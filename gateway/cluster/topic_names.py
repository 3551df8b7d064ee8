"""The names of all topics of a cluster, refreshed while they are in use.

A listing costs in proportion to the size of the cluster, so it runs rarely and only on demand.
"""

import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from uuid import UUID

import trio

from gateway.cluster.errors import UpstreamError

SHARE_OF_TIME = 20
"""The pause after a listing, as a multiple of the time it took."""

Look = Callable[[], Awaitable[Mapping[UUID, str]]]
"""Lists the names of all topics of the cluster, by id. Raises UpstreamError."""


class TopicNames:
    """`run` refreshes the names on demand; `get` returns them, from the cache if possible."""

    def __init__(self, look: Look, *, interval_s: float) -> None:
        self._look = look
        self._interval_s = interval_s
        self._turn = trio.Lock()
        self._next_look_s = -math.inf
        self._failure: UpstreamError | None = None
        self._wanted = trio.Event()
        self.by_id: Mapping[UUID, str] = {}
        """The names of the last listing."""
        self.version = 0
        """Grows when a name appears: the wall-clock millisecond of that listing, so that it does
        not decrease across a restart."""

    async def get(self) -> Mapping[UUID, str]:
        """Recent names by id. Raises UpstreamError."""
        async with self._turn:
            if trio.current_time() >= self._next_look_s:
                await self._look_now()
        if self._failure is not None:
            raise UpstreamError(str(self._failure))
        return self.by_id

    def want(self) -> None:
        """Request one more listing when the pause is over. `version` shows whether it found a new
        name. Callers that want fresh names call this repeatedly."""
        self._wanted.set()

    async def run(self) -> None:
        """Run requested listings until cancelled."""
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
