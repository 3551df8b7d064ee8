"""For the `conftest.py` of folders with modules that need the extra `pipeline`: skips these without
it."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.spark import SPARK_PATHS, need_spark


class Module(pytest.Module):
    """A module that is imported only where Spark can run."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        need_spark()
        return super().collect()


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Collect a module that needs the extra; None leaves another one to pytest."""
    if SPARK_PATHS.isdisjoint((module_path, module_path.parent)):
        return None
    module: pytest.Module = Module.from_parent(parent, path=module_path)
    return module
