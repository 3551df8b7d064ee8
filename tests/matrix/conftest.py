"""Selects the rolls to run, and stores their results."""

import pytest

from tests.support.matrix import Result, Roll
from tests.support.matrix_table import Note, write_result


def is_full_run(config: pytest.Config) -> bool:
    """Whether `-m matrix` selected the full run."""
    return "matrix" in config.option.markexpr


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one roll of each library, unless the full run is selected."""
    if is_full_run(config):
        return
    more = [item for item in items if (roll := roll_of(item)) and not roll.is_in_ci]
    items[:] = [item for item in items if item not in more]
    config.hook.pytest_deselected(items=more)


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
def note(request: pytest.FixtureRequest) -> Note:
    """Stores a result in the full run."""
    return write_result if is_full_run(request.config) else _forget


def _forget(_roll: Roll, _result: Result) -> None:
    """Store nothing: one roll per library is not a full run."""
