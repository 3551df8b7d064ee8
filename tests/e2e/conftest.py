"""Leaves out what only the full matrix has, and checks a machine's requirements before a test
starts, because inside a nursery the reason would be lost."""

from pathlib import Path

import pytest

from tests.support.clients import Client

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the clients of the matrix that CI does not need to `-m matrix`."""
    if "matrix" in config.option.markexpr:
        return
    more = [item for item in items if item.path.parent == HERE and _is_of_matrix(item)]
    items[:] = [item for item in items if item not in more]
    config.hook.pytest_deselected(items=more)


def _is_of_matrix(item: pytest.Item) -> bool:
    return item.get_closest_marker("matrix") is not None


@pytest.fixture(autouse=True)
def _clients_of_the_parameters(request: pytest.FixtureRequest) -> None:
    """Skip the test unless each client among its parameters can be started."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    for parameter in parameters.values():
        if isinstance(parameter, Client):
            parameter.program()
