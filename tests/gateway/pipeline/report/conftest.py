"""Skips the module of this folder that imports the library of the page, on a machine without it."""

from tests.support.spark_modules import pytest_pycollect_makemodule

__all__ = ["pytest_pycollect_makemodule"]
