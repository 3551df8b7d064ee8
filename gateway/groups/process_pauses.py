"""Notices when this process was paused: stopped, or starved by a busy machine.

During a pause members may have spoken; their requests wait in the sockets, or the members are
reconnecting. They must not be fenced for that, as after a restart. A longer wait than the session
is always safe, because their partitions are granted to no other member meanwhile.
"""

import structlog
import trio

from gateway.groups.clock import Clock

LOOK_INTERVAL_S = 1.0
PAUSE_MS = 3_000
"""The shortest pause that counts: half of the shortest session that Kafka allows."""

log = structlog.get_logger()


class ProcessPauses:
    """`run` reads the clock all the time. So does every task that is about to act on a deadline,
    since it may be the first to run after a pause."""

    def __init__(self, clock: Clock, *, grace_max_ms: int) -> None:
        self._clock = clock
        self._grace_max_ms = grace_max_ms
        self._looked_ms = clock.now_ms()
        self._grace_over_ms = self._looked_ms

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await trio.sleep(LOOK_INTERVAL_S)
            self.not_before_ms()

    def not_before_ms(self) -> int:
        """The earliest time at which members may be fenced, in wall-clock milliseconds.

        The grace is as long as the pause, because clients retry less often the longer they get no
        answer, up to a limit. A gateway that runs most of the time therefore fences members,
        however often it is paused.
        """
        now_ms = self._clock.now_ms()
        pause_ms = now_ms - self._looked_ms
        self._looked_ms = now_ms
        if pause_ms >= PAUSE_MS:
            grace_ms = min(pause_ms, self._grace_max_ms)
            self._grace_over_ms = max(self._grace_over_ms, now_ms + grace_ms)
            log.warning("gateway_paused", length_ms=pause_ms, grace_ms=grace_ms)
        return self._grace_over_ms
