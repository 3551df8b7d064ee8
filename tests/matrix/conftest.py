"""Selects the rolls to run, and stores their results."""

import pytest

from tests.matrix.matrix_table import RecordResult, write_result
from tests.support.matrix import Result, Roll


def is_full_run(config: pytest.Config) -> bool:
    """Whether `-m matrix` selected the full run."""
    return "matrix" in config.option.markexpr


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one roll and one producer of each library, unless the full run is selected."""
    if is_full_run(config):
        return
    more = [item for item in items if not is_in_ci(item)]
    items[:] = [item for item in items if item not in more]
    config.hook.pytest_deselected(items=more)


def is_in_ci(item: pytest.Item) -> bool:
    """Whether CI runs the test, which may have a roll or a producer."""
    params = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return all(getattr(param, "is_in_ci", True) for param in params)


def roll_of(item: pytest.Item) -> Roll | None:
    """The roll of a test."""
    roll = item.callspec.params.get("roll") if hasattr(item, "callspec") else None
    return roll if isinstance(roll, Roll) else None


@pytest.fixture(autouse=True)
def _clients_of_the_roll(request: pytest.FixtureRequest) -> None:
    """Skip the test unless its clients can be started. Check before the test, because inside a
    nursery the reason would be lost."""
    if roll := roll_of(request.node):
        for client in (roll.classic, roll.native, roll.partner):
            client.program()


@pytest.fixture
def record_result(request: pytest.FixtureRequest) -> RecordResult:
    """Stores a result in the full run."""
    return write_result if is_full_run(request.config) else _forget


def _forget(_roll: Roll, _result: Result) -> None:
    """Store nothing: one roll per library is not a full run."""
