"""For the `conftest.py` of folders whose modules import PySpark: skips these without it."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.spark import need_spark


class Module(pytest.Module):
    """A module that is imported only where Spark can run."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """The tests of the module."""
        need_spark()
        return super().collect()


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    """Collect every module of this folder."""
    module: pytest.Module = Module.from_parent(parent, path=module_path)
    return module
