"""Objects that are freed immediately, and those that wait for a garbage collection."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS_PER_COLLECTION = 50_000
"""How many objects a process that makes many creates between two garbage collections. Most of them
are not garbage."""


@contextmanager
def freed_at_once(*kinds: type[object]) -> Iterator[None]:
    """Every object of these kinds that the block makes is gone at its end, without a collection."""
    gc.collect()
    gc.disable()
    before = count(*kinds)
    try:
        yield
        assert count(*kinds) == before
    finally:
        gc.enable()


def count(*kinds: type[object]) -> int:
    """The objects of these kinds in the process."""
    return sum(isinstance(value, kinds) for value in gc.get_objects())
