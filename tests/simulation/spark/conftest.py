"""Skips the modules of this folder, which import PySpark, on a machine without it."""

from tests.support.spark_modules import pytest_pycollect_makemodule

__all__ = ["pytest_pycollect_makemodule"]
