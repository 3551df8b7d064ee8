"""The lane of applications: they run only if `-m applications` selects them, because each takes
minutes of a small machine."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the lane out of every other run."""
    if "applications" in config.option.markexpr:
        return
    applications = [item for item in items if item.get_closest_marker("applications")]
    items[:] = [item for item in items if item not in applications]
    config.hook.pytest_deselected(items=applications)
