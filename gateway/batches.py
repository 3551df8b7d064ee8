"""Splits long lists, so that no list holds the event loop for more than some milliseconds."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TypeVar

import trio

NAMES_TOGETHER_MAX = 1_000
"""Names of one request that are handled together; a client may send tens of thousands."""
NAMES_PER_STEP = 50
"""Names of one request that are handled before others run: hundreds of such requests may come
together, and each then takes a step."""

_T = TypeVar("_T")


def batches(items: Sequence[_T], size: int | None = None) -> Iterator[tuple[_T, ...]]:
    """The items in order, `size` of them at a time, by default NAMES_TOGETHER_MAX."""
    size = size or NAMES_TOGETHER_MAX
    for start in range(0, len(items), size):
        yield tuple(items[start : start + size])


async def in_steps(items: Iterable[_T]) -> AsyncIterator[_T]:
    """The items in order. Other tasks run after every NAMES_PER_STEP of them."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % NAMES_PER_STEP == 0:
            await trio.lowlevel.checkpoint()
