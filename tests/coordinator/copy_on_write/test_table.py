"""Objects and mappings whose forks change independently of them."""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.copy_on_write import table as tables
from coordinator.copy_on_write.table import CountTable, Forkable, Overlay, Table

CHANGES = st.lists(
    st.tuples(st.sampled_from(["put", "drop", "clear"]), st.sampled_from("abc"), st.integers(0, 9))
)


def change(table: Table[str, int], what: str, key: str, value: int) -> None:
    match what:
        case "put":
            table.put(key, value)
        case "drop":
            table.drop(key)
        case _:
            table.clear()


@pytest.fixture(params=[0, 64], ids=["overlays", "copies"], scope="module")
def copied_rows_max(request: pytest.FixtureRequest) -> Iterator[int]:
    """With 0, the fork of each table is an overlay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "COPIED_ROWS_MAX", request.param)
        yield request.param


@pytest.mark.usefixtures("copied_rows_max")
@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)), CHANGES, CHANGES)
def test_forks_change_independently(
    rows: dict[str, int],
    changes: list[tuple[str, str, int]],
    later: list[tuple[str, str, int]],
) -> None:
    """Each behaves like a dict that was copied at the fork, which a table without forks is."""
    table = Table(rows)
    fork, expected = table.fork(), Table(rows)
    for drawn in changes:
        change(fork, *drawn)
        change(expected, *drawn)
    second, second_expected = fork.fork(), Table(expected)
    for drawn in later:
        change(second, *drawn)
        change(second_expected, *drawn)
    assert dict(table) == rows
    assert dict(fork) == expected
    assert dict(second) == second_expected
    for changed, same in ((fork, expected), (second, second_expected)):
        assert list(changed.items()) == list(same.items())
        assert list(changed) == list(changed.keys()) == list(same)
        assert list(changed.values()) == list(same.values())
        copied = changed.copy()
        assert copied == same
        copied["another"] = 0
        assert "another" not in changed
        assert len(changed) == len(same)
        for key in "abc":
            assert (key in changed, changed.get(key), changed.get(key, 7)) == (
                key in same,
                same.get(key),
                same.get(key, 7),
            )


def test_the_fork_of_a_large_table_is_no_copy() -> None:
    """A step is therefore cheap, however many rows there are."""
    small = Table({n: n for n in range(tables.COPIED_ROWS_MAX)})
    large = Table({n: n for n in range(tables.COPIED_ROWS_MAX + 1)})
    assert isinstance(small.fork(), Table)
    assert not isinstance(large.fork(), dict)


def test_tables_with_the_same_rows_are_equal() -> None:
    """A table has no hash, because it is mutable."""
    assert Table({"a": 1}) == Table({"a": 1})
    assert Table({"a": 1}) != Table({"a": 2})
    assert Table.__hash__ is None


def test_an_overlay_stores_only_its_own_writes() -> None:
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


def test_an_overlay_equals_a_mapping_with_the_same_rows() -> None:
    """An overlay has no hash, because it is mutable."""
    overlay = Overlay({"a": 1, "b": 2})
    overlay.drop("b")
    assert overlay == {"a": 1} == overlay
    assert overlay != {"a": 1, "b": 2}
    assert Overlay.__hash__ is None


@given(st.lists(st.text("abc"), max_size=8), st.data())
def test_a_count_is_additions_minus_removals(words: list[str], data: st.DataObject) -> None:
    """A key with count zero has no row. Forks count independently."""
    stats: CountTable[str] = CountTable()
    for word in words:
        stats.add(word)
    fork = stats.fork()
    removed = data.draw(st.lists(st.sampled_from(words), unique_by=id)) if words else []
    counts = Counter("".join(words))
    for word in removed:
        if Counter(word) <= counts:
            fork.remove(word)
            counts -= Counter(word)
    assert dict(stats) == Counter("".join(words))
    assert dict(fork) == counts


def test_removing_an_absent_key_fails() -> None:
    """A wrong count is a bug, which must show."""
    with pytest.raises(KeyError):
        CountTable[str]().remove("a")


# -- objects: a fork copies only the fields that are used -----------------------------------------


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


def test_forks_of_an_object_change_independently() -> None:
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


def test_only_forks_look_for_missing_fields() -> None:
    """A look at an attribute of a group would take ten times as long in all others."""
    assert not hasattr(Outer, "__getattr__")
    assert hasattr(type(Outer().fork()), "__getattr__")
    assert isinstance(Outer().fork().fork(), Outer)


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
    """An original and a fork raise the same error."""
    for outer in (Outer(), Outer().fork()):
        with pytest.raises(AttributeError):
            outer.colour  # type: ignore[attr-defined]  # noqa: B018
