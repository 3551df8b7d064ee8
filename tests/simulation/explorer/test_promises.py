"""Broken promises say why."""

import pytest

from tests.simulation.explorer.promises import BrokenPromiseError, promise


def test_only_a_broken_promise_is_an_error() -> None:
    promise(True, "fine")
    with pytest.raises(BrokenPromiseError, match="a and b own 0"):
        promise(False, "a and b", "own", 0)
