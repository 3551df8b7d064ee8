"""Whether we ourselves were away: a process that was stopped, a machine that was too busy for it.

Members may have spoken all the while, and what they said waits in the sockets, or they are still
trying to connect again: as little as after a restart may they be timed out for that. Waiting longer
than a session is always safe, for nothing is given to anybody else meanwhile.
"""

import structlog
import trio

from gateway.groups.clock import Clock

LOOK_INTERVAL_S = 1.0
PAUSE_MS = 3_000
"""Of this length or longer, a pause counts: half of the shortest session that Kafka allows."""

log = structlog.get_logger()


class ProcessPauses:
    """`run` looks at the clock all the time; so does whoever is about to act on a deadline, who may
    be the first to go on."""

    def __init__(self, clock: Clock, *, grace_max_ms: int) -> None:
        self._clock = clock
        self._grace_max_ms = grace_max_ms
        self._looked_ms = clock.now_ms()
        self._grace_over_ms = self._looked_ms

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await trio.sleep(LOOK_INTERVAL_S)
            self.not_before_ms()

    def not_before_ms(self) -> int:
        """When members are timed out at the earliest, wall-clock milliseconds.

        A pause is made up for by a time as long as itself: clients try the less often the longer
        they had no answer, but not less often than a loaded group expects. So a gateway that is
        there most of the time times members out, however often it is paused.
        """
        now_ms = self._clock.now_ms()
        pause_ms = now_ms - self._looked_ms
        self._looked_ms = now_ms
        if pause_ms >= PAUSE_MS:
            grace_ms = min(pause_ms, self._grace_max_ms)
            self._grace_over_ms = max(self._grace_over_ms, now_ms + grace_ms)
            log.warning("gateway_paused", length_ms=pause_ms, grace_ms=grace_ms)
        return self._grace_over_ms
