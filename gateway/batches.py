"""Splits long lists, so that no list holds the event loop for more than some milliseconds."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

NAMES_TOGETHER_MAX = 1_000
"""Names of one request that are handled together; a client may send tens of thousands."""

_T = TypeVar("_T")


def batches(items: Sequence[_T], size: int | None = None) -> Iterator[tuple[_T, ...]]:
    """The items in order, `size` of them at a time, by default NAMES_TOGETHER_MAX."""
    size = size or NAMES_TOGETHER_MAX
    for start in range(0, len(items), size):
        yield tuple(items[start : start + size])
