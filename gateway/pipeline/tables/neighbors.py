"""Neighbors in an ordered list."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def with_next(items: Sequence[T]) -> Iterator[tuple[T, T | None]]:
    """Each item with the one after it; the last one with None."""
    return zip(items, [*items[1:], None], strict=False)
