"""How pytest-xdist distributes the tests among its workers.

Slow tests mostly wait, so several run at a time. Tests that share a cluster or Spark run in one
worker, because these are expensive to start; so do tests that fold the same simulated runs. All
other tests of a class, or of a file without classes, run in one worker.
"""

import re

import pytest
from xdist.scheduler import LoadScopeScheduling

_SHARED_ID = re.compile(r"\b(?:(kafka-\d+\.\d+)|(?:secure-kafka|three-brokers)-\d+\.\d+|spark)\b")
"""The shared clusters and Spark, in the ids of parametrized tests: see tests/conftest.py."""
_FOLDS = "tests/gateway/pipeline/fold"
"""The folder of tests on the same simulated runs."""
_ALONE = ("tests/e2e/test_remove.py", "tests/e2e/test_whole_story.py")
"""Files with their own clusters. Beside the other tests of their folder they would keep one worker
busy for longer than all others."""
_FIRST = ("long", "spark", "kafka", "simulation")
"""The marks of the slowest tests."""


class ByShareOrFile(LoadScopeScheduling):  # type: ignore[misc]  # has no types
    """Assigns all tests of a scope to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)


def scope(nodeid: str) -> str:
    """The scope of a test: what it shares. The many tests on `kafka` are divided by folder, and the
    slowest files among them are scopes of their own."""
    file, _, name = nodeid.partition("::")
    shared = _SHARED_ID.search(name)
    if shared is None:
        owner = nodeid.partition("[")[0].rpartition("::")[0]
        return _FOLDS if file.startswith(_FOLDS) else owner
    users = file if file in _ALONE else "/".join(file.split("/")[:2])
    return f"{users} on {shared[0]}" if shared[1] else shared[0]


def slow_ones_first(items: list[pytest.Item]) -> None:
    """Sort slow tests first, so that quick ones fill the gaps at the end."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    ranks = (rank for rank, mark in enumerate(_FIRST) if item.get_closest_marker(mark))
    return next(ranks, len(_FIRST))
