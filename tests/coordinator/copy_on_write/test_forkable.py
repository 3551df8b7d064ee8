"""Lazy forks copy only fields that are used."""

import pytest

from coordinator.copy_on_write.forkable import Forkable
from coordinator.copy_on_write.table import Table


class Inner(Forkable):
    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: Table[str, int] = Table({"a": 1})


class Outer(Forkable):
    __slots__ = ("inner", "nothing", "number", "rows")

    def __init__(self) -> None:
        self.inner = Inner()
        self.nothing: Inner | None = None
        self.number = 1
        self.rows: Table[str, int] = Table()


def values(outer: Outer) -> tuple[object, ...]:
    return (dict(outer.inner.rows), outer.nothing, outer.number, dict(outer.rows))


def test_forks_change_independently() -> None:
    """This applies to values, tables and nested forkables, even after they were read."""
    outer = Outer()
    fork = outer.fork()
    assert values(fork) == values(outer) == ({"a": 1}, None, 1, {})
    fork.inner.rows.put("b", 2)
    fork.number = 2
    second = fork.fork()
    second.inner.rows.drop("a")
    second.nothing = Inner()
    second.rows.put("c", 3)
    assert values(outer) == ({"a": 1}, None, 1, {})
    assert values(fork) == ({"a": 1, "b": 2}, None, 2, {})
    assert second.nothing is not None
    assert dict(second.inner.rows) == {"b": 2}


def test_an_unused_field_is_not_forked() -> None:
    """That keeps the step of a heartbeat cheap."""
    outer = Outer()
    fork = outer.fork()
    assert fork.rows is fork.rows
    forked = [name for name in Outer.__slots__ if _is_filled(fork, name)]
    assert forked == ["rows"]


def _is_filled(outer: Outer, name: str) -> bool:
    try:
        object.__getattribute__(outer, name)
    except AttributeError:
        return False
    return True


def test_an_unknown_attribute_is_an_error() -> None:
    """It is an error in an original and in a fork."""
    for outer in (Outer(), Outer().fork()):
        with pytest.raises(AttributeError):
            outer.colour  # type: ignore[attr-defined]  # noqa: B018
