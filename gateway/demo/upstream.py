"""The cluster that a run of the demo uses."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeAlias

from gateway.cluster.access import PLAIN_ACCESS, Access


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoCluster:
    """A cluster with a topic and a group id for the demo."""

    bootstrap: str
    """HOST:PORT[,...]"""
    topic: str
    group: str
    access: Access = PLAIN_ACCESS
    """How the cluster is reached."""


OpenUpstream: TypeAlias = Callable[[int], AbstractAsyncContextManager[DemoCluster]]
"""Provides the cluster and its topic with this many partitions during a block."""
