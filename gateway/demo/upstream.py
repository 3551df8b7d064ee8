"""The cluster that a run of the demo uses, as the rest of the demo sees it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A cluster with a topic and a group id of our own."""

    bootstrap: str
    """HOST:PORT[,...]"""
    topic: str
    group: str


OpenUpstream: TypeAlias = Callable[[int], AbstractAsyncContextManager[Upstream]]
"""Has the cluster ready, its topic with so many partitions, for the length of a block."""
