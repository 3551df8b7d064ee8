"""Waits for a broker end in time."""

from dataclasses import dataclass
from functools import partial

import trio

from gateway.data_path.patience import LOOK_S, Patience


@dataclass
class Answer:
    """What a test waits for."""

    is_over: bool = False


async def test_only_a_wait_that_is_too_long_is_given_up(autojump_clock: object) -> None:
    """Whatever ended before costs nothing any more."""
    patience, given_up = Patience(), list[str]()
    early, late = Answer(), Answer()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(patience.run)
        patience.wait(early, trio.current_time() + 3.0, partial(given_up.append, "early"))
        patience.wait(late, trio.current_time() + 3.0, partial(given_up.append, "late"))
        early.is_over = True
        await trio.sleep(3.0 - LOOK_S)
        assert given_up == []
        await trio.sleep(2 * LOOK_S)
        assert given_up == ["late"]
        nursery.cancel_scope.cancel()


async def test_waits_that_are_over_are_forgotten(autojump_clock: object) -> None:
    """A busy gateway begins thousands of them before the task looks."""
    patience, answers = Patience(), [Answer() for _ in range(100)]
    for answer in answers:
        patience.wait(answer, trio.current_time() + 3.0, lambda: None)
        answer.is_over = True
    assert patience.count <= 1
