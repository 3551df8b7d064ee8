"""Which tests run one after another in one worker of pytest-xdist, and which workers begin with.

Most of the time of the slow tests is waiting, hence several at a time. Tests that share a cluster
or Spark stay together, since these are dear to start; all others stay with their file.
"""

import re

import pytest
from xdist.scheduler import LoadScopeScheduling

_SHARED_ID = re.compile(r"\b((kafka|three-brokers)-\d+\.\d+|spark)\b")
"""Names what is dear to start among the parameters of a test: see tests/conftest.py."""
_FIRST = ("long", "spark", "kafka")
"""Marks of the tests that take longest."""


class ByShareOrFile(LoadScopeScheduling):  # type: ignore[misc]  # has no types
    """Gives a worker all tests that share something dear, or a file, at once."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)


def scope(nodeid: str) -> str:
    """What tests have in common that one worker runs; their folder as well, or one of the workers
    would have half of all."""
    file, _, name = nodeid.partition("::")
    shared = _SHARED_ID.search(name)
    folder = "/".join(file.split("/")[:2])
    return f"{folder} on {shared[0]}" if shared else file


def slow_ones_first(items: list[pytest.Item]) -> None:
    """What is quick then fills the gaps at the end."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    ranks = (rank for rank, mark in enumerate(_FIRST) if item.get_closest_marker(mark))
    return next(ranks, len(_FIRST))
