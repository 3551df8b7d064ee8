"""How long heartbeats took to be answered."""

from gateway.hosting.answer_times import ANSWERS_KEPT, AnswerTimes


def test_the_longest_of_the_latest_answers_counts() -> None:
    times = AnswerTimes()
    assert times.longest_ms == 0
    for time_ms in (5, 900, 7):
        times.note(time_ms)
    assert times.longest_ms == 900


def test_a_slow_answer_is_forgotten_after_a_hundred_others() -> None:
    times = AnswerTimes()
    times.note(900)
    for _ in range(ANSWERS_KEPT):
        times.note(7)
    assert times.longest_ms == 7
