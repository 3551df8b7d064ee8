"""How long the calls of one connection took lately. A heartbeat that arrives behind one of them
waits as long for its answer."""

WINDOW_S = 30.0
"""A call counts for this long, and for twice as long at most."""


class CallTimes:
    """The longest call of this window and of the one before."""

    __slots__ = ("_before_s", "_longest_s", "_since_s")

    def __init__(self) -> None:
        self._longest_s = self._before_s = 0.0
        self._since_s = 0.0

    def record(self, length_s: float, now_s: float) -> None:
        """A call was answered, or given up, after this time."""
        self._turn_over(now_s)
        self._longest_s = max(self._longest_s, length_s)

    def longest_ms(self, now_s: float) -> int:
        """The longest of the latest calls, 0 if there are none."""
        if not self._longest_s and not self._before_s:
            return 0
        self._turn_over(now_s)
        return int(max(self._longest_s, self._before_s) * 1_000)

    def _turn_over(self, now_s: float) -> None:
        if now_s - self._since_s < WINDOW_S:
            return
        is_next = now_s - self._since_s < 2 * WINDOW_S
        self._before_s = self._longest_s if is_next else 0.0
        self._longest_s, self._since_s = 0.0, now_s
