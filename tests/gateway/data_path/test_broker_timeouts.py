"""Waits for a broker end in time."""

from dataclasses import dataclass
from functools import partial

import trio

from gateway.data_path.broker_timeouts import CHECK_INTERVAL_S, BrokerTimeouts


@dataclass
class Answer:
    """What a test waits for."""

    is_over: bool = False


async def test_only_a_wait_that_is_too_long_is_given_up(autojump_clock: object) -> None:
    """Whatever ended before costs nothing any more."""
    broker_timeouts, given_up = BrokerTimeouts(), list[str]()
    early, late = Answer(), Answer()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker_timeouts.run)
        broker_timeouts.wait(early, trio.current_time() + 3.0, partial(given_up.append, "early"))
        broker_timeouts.wait(late, trio.current_time() + 3.0, partial(given_up.append, "late"))
        early.is_over = True
        await trio.sleep(3.0 - CHECK_INTERVAL_S)
        assert given_up == []
        await trio.sleep(2 * CHECK_INTERVAL_S)
        assert given_up == ["late"]
        nursery.cancel_scope.cancel()


async def test_waits_that_are_over_are_forgotten(autojump_clock: object) -> None:
    """A busy gateway begins thousands of them before the task looks."""
    broker_timeouts, answers = BrokerTimeouts(), [Answer() for _ in range(100)]
    for answer in answers:
        broker_timeouts.wait(answer, trio.current_time() + 3.0, lambda: None)
        answer.is_over = True
    assert broker_timeouts.count <= 1
