"""Skips the pipeline's tests on a machine without PySpark."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.spark import need_spark


class Module(pytest.Module):
    """A module that is skipped if it cannot be imported without Spark."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """The tests of the module."""
        try:
            return super().collect()
        except self.CollectError:
            need_spark()
            raise


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    """Collect every module of this folder."""
    module: pytest.Module = Module.from_parent(parent, path=module_path)
    return module
