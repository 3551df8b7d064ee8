"""The longest of the latest answer times."""

import pytest

from coordinator.interface.config import GroupConfig
from gateway.hosting.answer_times import ANSWER_TIMES_KEPT, AnswerTimes


@pytest.fixture
def times() -> AnswerTimes:
    """No heartbeat was answered so far."""
    return AnswerTimes(GroupConfig(unsettled_heartbeat_interval_ms=1_000))


def test_the_longest_of_the_latest_counts(times: AnswerTimes) -> None:
    for time_ms in (5, 900, 7):
        times.record(time_ms)
    assert (times.longest_ms, times.are_slow) == (900, True)


def test_a_slow_answer_is_forgotten_after_a_hundred_others(times: AnswerTimes) -> None:
    times.record(900)
    for _ in range(ANSWER_TIMES_KEPT - 1):
        times.record(7)
    assert times.longest_ms == 900
    times.record(7)
    assert (times.longest_ms, times.are_slow) == (7, False)
