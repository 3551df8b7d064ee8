"""How long a group's latest heartbeats waited for their answers: while they wait long, members are
told to send them less often."""

from collections import deque

from coordinator.interface.config import GroupConfig
from coordinator.native.heartbeat_interval import ANSWER_TIMES_PER_INTERVAL

ANSWER_TIMES_KEPT = 100
"""The longest of so many is at least their 99th percentile."""


class AnswerTimes:
    """The longest of the latest times. A heartbeat that is answered at rest takes no time, and is
    recorded only while others are slow."""

    def __init__(self, config: GroupConfig) -> None:
        self.longest_ms = 0
        self.are_slow = False
        """Whether they are long enough for longer intervals."""
        self._latest: deque[int] = deque(maxlen=ANSWER_TIMES_KEPT)
        self._quick_ms = config.unsettled_heartbeat_interval_ms // ANSWER_TIMES_PER_INTERVAL

    def record(self, time_ms: int) -> None:
        """A heartbeat was answered."""
        self._latest.append(time_ms)
        self.longest_ms = max(self._latest)
        self.are_slow = self.longest_ms > self._quick_ms
