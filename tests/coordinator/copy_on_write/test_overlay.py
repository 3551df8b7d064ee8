"""A mapping that stores only its own writes. `test_table.py` compares it with a dict."""

import pytest

from coordinator.copy_on_write.overlay import Overlay


def test_it_stores_only_its_own_writes() -> None:
    """The rows below it stay as they are."""
    rows = {n: n for n in range(1_000)}
    overlay = Overlay(rows)
    overlay.put(1, 11)
    overlay.put(1_000, 12)
    overlay.drop(2)
    overlay.drop(-1)  # a key without a row
    assert (overlay._own, overlay._hidden) == ({1: 11, 1_000: 12}, {2})
    assert len(overlay) == 1_000
    assert rows == {n: n for n in range(1_000)}
    with pytest.raises(KeyError):
        overlay[2]


def test_it_equals_a_mapping_with_the_same_rows() -> None:
    """An overlay has no hash, because it is mutable."""
    overlay = Overlay({"a": 1, "b": 2})
    overlay.drop("b")
    assert overlay == {"a": 1} == overlay
    assert overlay != {"a": 1, "b": 2}
    assert Overlay.__hash__ is None
