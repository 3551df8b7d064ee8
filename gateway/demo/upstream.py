"""The cluster that a run of the demo uses."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A cluster with a topic and a group id for the demo."""

    bootstrap: str
    """HOST:PORT[,...]"""
    topic: str
    group: str


OpenUpstream: TypeAlias = Callable[[int], AbstractAsyncContextManager[Upstream]]
"""Provides the cluster and its topic with this many partitions during a block."""
