"""How long the calls of one connection took recently."""

from gateway.data_path.call_times import WINDOW_S, CallTimes


def test_the_longest_call_counts_for_a_while() -> None:
    """Short calls that follow do not hide it."""
    times = CallTimes()
    assert times.longest_ms(100.0) == 0
    times.record(1.2, 100.0)
    times.record(0.01, 101.0)
    assert times.longest_ms(100.0 + WINDOW_S) == 1_200


def test_a_slow_call_is_forgotten() -> None:
    """After two windows at most, with or without calls."""
    times = CallTimes()
    times.record(1.2, 100.0)
    times.record(0.01, 100.0 + WINDOW_S)
    times.record(0.02, 100.0 + 2 * WINDOW_S)
    assert times.longest_ms(100.0 + 2 * WINDOW_S) == 20
    assert times.longest_ms(100.0 + 5 * WINDOW_S) == 0
