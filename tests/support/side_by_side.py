"""How pytest-xdist distributes the tests among its workers.

Slow tests mostly wait, so several run at a time. Tests that share a cluster or Spark run in one
worker, because these are expensive to start; so do tests that fold the same simulated runs. All
other tests of a class, or of a file without classes, run in one worker.

A worker takes tests that wait for other programs and tests that compute in turn, so that the cores
are neither idle at first nor too few in the end. All of them collect the tests, and each compiles a
share of them for all.
"""

import importlib
import itertools
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_SHARED_ID = re.compile(r"\b(?:(kafka-\d+\.\d+)|(?:secure-kafka|three-brokers)-\d+\.\d+|spark)\b")
"""The shared clusters and Spark, in the ids of parametrized tests: see tests/conftest.py."""
_TESTS = Path(__file__).parents[1]
_FOLDS = "tests/gateway/pipeline/fold"
"""The folder of tests on the same simulated runs."""
_LEAVING = re.compile(r"tests/e2e/test_(release|remove|whole_story)")
"""Files about groups that go back to the cluster, which have clusters of their own. Together with
the other tests of their folder they would keep one worker busy for longer than all others."""
_WAITING = re.compile(
    r" on kafka-|^(secure-kafka|three-brokers)-|^tests/(e2e|differential|matrix)/|_with_kafka\.py"
)
"""The scopes whose tests mostly wait for brokers and clients."""
_FIRST = ("long", "spark", "kafka", "simulation")
"""The marks of the slowest tests."""


class ByShareOrFile(LoadScopeScheduling):  # type: ignore[misc]  # has no types
    """Assigns all tests of a scope to one worker."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._waits_next: dict[WorkerController, bool] = {}
        self._at_first = itertools.cycle([True, False])

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        waits = self._waits_next.get(node)
        taken = next_scope(self.workqueue, waits=next(self._at_first) if waits is None else waits)
        self._waits_next[node] = not is_waiting(taken)
        self.workqueue.move_to_end(taken, last=False)
        super()._assign_work_unit(node)


def next_scope(queue: Iterable[str], *, waits: bool) -> str:
    """The first scope that waits, or that computes; the first one if there is none."""
    scopes = list(queue)
    return next((scope for scope in scopes if is_waiting(scope) is waits), scopes[0])


def is_waiting(scope: str) -> bool:
    """Whether the tests of a scope mostly wait for other programs."""
    return _WAITING.search(scope) is not None


def scope(nodeid: str) -> str:
    """The scope of a test: what it shares. The many tests on `kafka` are divided by folder, and the
    slowest files among them are a scope of their own."""
    file, _, name = nodeid.partition("::")
    shared = _SHARED_ID.search(name)
    if shared is None:
        owner = nodeid.partition("[")[0].rpartition("::")[0]
        return _FOLDS if file.startswith(_FOLDS) else owner
    users = "groups that leave" if _LEAVING.match(file) else "/".join(file.split("/")[:2])
    users = users.replace("matrix", "e2e")  # too few for a cluster of their own
    return f"{users} on {shared[0]}" if shared[1] else shared[0]


def is_whole_suite(config: pytest.Config) -> bool:
    """Whether the command names no files to test, as in the README."""
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS


def import_share(config: pytest.Config) -> None:
    """Import a worker's share of the test modules before it collects all of them. By then the
    others have compiled theirs, which costs more than the imports."""
    worker = getattr(config, "workerinput", None)
    if worker is None or not is_whole_suite(config):
        return
    number = int(worker["workerid"].removeprefix("gw"))
    files = sorted(_TESTS.rglob("test_*.py"))
    for file in files[number :: worker["workercount"]]:
        name = ".".join(file.relative_to(_TESTS.parent).with_suffix("").parts)
        with suppress(Exception, pytest.skip.Exception):  # the collection reports it
            importlib.import_module(name)


def slow_ones_first(items: list[pytest.Item]) -> None:
    """Sort slow tests first, so that quick ones fill the gaps at the end."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    ranks = (rank for rank, mark in enumerate(_FIRST) if item.get_closest_marker(mark))
    return next(ranks, len(_FIRST))
