"""Calls that wait: their order, and the end of their patience."""

from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import Call
from gateway.hosting.waiting import WaitingCalls

NOW_MS = 1_000


def call() -> Call:
    """A call that has just arrived."""
    return Call(api=GroupApi.JOIN)


def test_calls_are_advanced_in_the_order_of_arrival() -> None:
    """The first one to join leads the group."""
    waiting, calls = WaitingCalls(), [call() for _ in range(3)]
    for each in calls:
        waiting.add(each)
    assert list(waiting) == calls
    for each in waiting:  # a call that is advanced may begin to wait again
        waiting.drop(each)
        waiting.add(each)
    assert list(waiting) == calls


def test_a_call_keeps_its_first_limit() -> None:
    """Waiting for several things one after the other does not take longer."""
    waiting, one = WaitingCalls(), call()
    assert waiting.add_until(one, NOW_MS + 10, NOW_MS)
    assert waiting.add_until(one, NOW_MS + 20, NOW_MS + 5)
    assert waiting.next_ms() == NOW_MS + 10
    assert not waiting.add_until(one, NOW_MS + 30, NOW_MS + 10)


def test_a_call_is_overdue_at_its_limit_and_not_before() -> None:
    """The caller answers it."""
    waiting, one, patient = WaitingCalls(), call(), call()
    waiting.add(patient)
    waiting.add_until(one, NOW_MS + 10, NOW_MS)
    assert list(waiting.take_overdue(NOW_MS + 9)) == []
    assert list(waiting.take_overdue(NOW_MS + 10)) == [one]


def test_a_dropped_call_wakes_nobody() -> None:
    """Its limit would wake the group for nothing."""
    waiting, one = WaitingCalls(), call()
    waiting.add_until(one, NOW_MS + 10, NOW_MS)
    waiting.drop(one)
    assert waiting.next_ms() is None
    assert not waiting


def test_a_limit_that_was_lifted_is_over() -> None:
    """A call that got what it waited for may wait for the next thing without a limit."""
    waiting, one = WaitingCalls(), call()
    waiting.add_until(one, NOW_MS + 10, NOW_MS)
    one.give_up_ms = None
    assert list(waiting.take_overdue(NOW_MS + 10)) == []
