"""Which rolls are run, and what becomes of their results."""

import pytest

from tests.support.matrix import Result, Roll
from tests.support.matrix_table import Note, write_result


def is_full_run(config: pytest.Config) -> bool:
    """Whether it was asked for with `-m matrix`."""
    return "matrix" in config.option.markexpr


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave one roll of each library, unless all of them are asked for."""
    if is_full_run(config):
        return
    more = [item for item in items if (roll := roll_of(item)) and not roll.is_in_ci]
    items[:] = [item for item in items if item not in more]
    config.hook.pytest_deselected(items=more)


def roll_of(item: pytest.Item) -> Roll | None:
    """The roll that a test is about."""
    roll = item.callspec.params.get("roll") if hasattr(item, "callspec") else None
    return roll if isinstance(roll, Roll) else None


@pytest.fixture(autouse=True)
def _clients_of_the_roll(request: pytest.FixtureRequest) -> None:
    """They can be started. Said before the test: inside of a nursery the reason would be lost."""
    if roll := roll_of(request.node):
        for client in (roll.classic, roll.native, roll.partner):
            client.program()


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Note:
    """Writes a result down, if this is the full run."""
    return write_result if is_full_run(request.config) else _forget


def _forget(_roll: Roll, _result: Result) -> None:
    """Do nothing: one roll of each library is no news."""
