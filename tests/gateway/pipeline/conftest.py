"""Tests of the pipeline whose modules import PySpark, on a machine that has none."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.spark import need_spark


class Module(pytest.Module):
    """Skipped as a whole if it cannot be imported for want of Spark."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Its tests."""
        try:
            return super().collect()
        except self.CollectError:
            need_spark()
            raise


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    """Every module of this folder."""
    module: pytest.Module = Module.from_parent(parent, path=module_path)
    return module
