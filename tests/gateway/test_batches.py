"""Splitting long lists."""

import pytest
import trio

from gateway import batches as module
from gateway.batches import NAMES_PER_STEP, batches, in_steps


@pytest.mark.parametrize(
    ("items", "parts"),
    [("", []), ("a", ["a"]), ("abcd", ["ab", "cd"]), ("abcde", ["ab", "cd", "e"])],
)
def test_the_parts_keep_order_and_content(items: str, parts: list[str]) -> None:
    """The last one may be shorter."""
    assert ["".join(part) for part in batches(items, 2)] == parts


def test_names_are_split_at_the_default_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit has a name."""
    monkeypatch.setattr(module, "NAMES_TOGETHER_MAX", 3)
    assert [len(part) for part in batches(range(7))] == [3, 3, 1]


async def test_others_run_between_the_steps(nursery: trio.Nursery) -> None:
    """The items keep their order, and a short list takes one step."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    nursery.start_soon(count)
    short = range(NAMES_PER_STEP - 1)
    assert [item async for item in in_steps(short)] == list(short)
    assert turns == 0
    long = range(10 * NAMES_PER_STEP)
    assert [item async for item in in_steps(long)] == list(long)
    assert turns >= 9
    nursery.cancel_scope.cancel()
