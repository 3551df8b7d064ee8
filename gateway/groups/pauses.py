"""Notices when this process was paused: stopped, or starved by a busy machine.

During a pause members may have spoken; their requests wait in the sockets, or the members are
reconnecting. They must not be fenced for that, as after a restart. A longer wait than the session
is always safe, because their partitions are granted to no other member meanwhile.
"""

from collections.abc import Callable

OnPause = Callable[[int, int], None]
"""Learns the length of a pause and of its grace, in milliseconds."""
PAUSE_MS = 3_000
"""The shortest pause that counts: half of the shortest session that Kafka allows."""


class Pauses:
    """Learns the time again and again, also from each group that is about to act on it, since that
    group may be the first to run after a pause."""

    def __init__(self, now_ms: int, *, grace_ms_max: int) -> None:
        self._grace_over_ms = now_ms
        self._grace_ms_max = grace_ms_max
        self._listeners: list[OnPause] = []
        self._observed_ms = now_ms

    def listen(self, on_pause: OnPause) -> None:
        """Call a listener at each pause."""
        self._listeners.append(on_pause)

    def observe(self, now_ms: int) -> int:
        """Learn the time. Returns the earliest one at which members may be fenced.

        The grace is as long as the pause, because clients retry less often the longer they get no
        answer, up to a limit. A gateway that runs most of the time therefore fences members,
        however often it is paused.
        """
        pause_ms = now_ms - self._observed_ms
        self._observed_ms = now_ms
        if pause_ms >= PAUSE_MS:
            grace_ms = min(pause_ms, self._grace_ms_max)
            self._grace_over_ms = max(self._grace_over_ms, now_ms + grace_ms)
            for on_pause in self._listeners:
                on_pause(pause_ms, grace_ms)
        return self._grace_over_ms
