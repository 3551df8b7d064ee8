"""A histogram of durations."""

from gateway.observers.durations import BOUNDS_S, Durations


def test_a_duration_counts_up_to_its_bound() -> None:
    """A failure counts beside it."""
    durations = Durations()
    durations.note(BOUNDS_S[0], failed=False)
    durations.note(BOUNDS_S[0] * 1.01, failed=True)
    durations.note(BOUNDS_S[-1] + 1, failed=False)
    assert durations.counts[:2] == [1, 1]
    assert durations.counts[-1] == 1
    assert durations.failures == 1
    assert round(durations.total_s, 3) == round(BOUNDS_S[0] * 2.01 + BOUNDS_S[-1] + 1, 3)
