"""How long something takes: a histogram whose cost is one search among few bounds."""

from bisect import bisect_left

BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Durations:
    """Counts durations, and failures among what took them."""

    def __init__(self, bounds_s: tuple[float, ...] = BOUNDS_S) -> None:
        self.bounds_s = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)
        """The number of durations up to each bound, and beyond the last one."""
        self.total_s = 0.0
        self.failures = 0

    def note(self, length_s: float, *, failed: bool = False) -> None:
        """Count one."""
        self.counts[bisect_left(self.bounds_s, length_s)] += 1
        self.total_s += length_s
        self.failures += failed
