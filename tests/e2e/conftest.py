"""Checks a machine's requirements before a test starts, because inside a nursery the reason would
be lost."""

import pytest

from tests.support.clients import Client


@pytest.fixture(autouse=True)
def _clients_of_the_parameters(request: pytest.FixtureRequest) -> None:
    """Skip the test unless each client among its parameters can be started."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    for each in parameters.values():
        if isinstance(each, Client):
            each.program()
