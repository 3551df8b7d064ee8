"""A mapping whose fork is free until one of the two is written."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.table import Table

CHANGES = st.lists(
    st.tuples(st.sampled_from(["put", "drop", "clear"]), st.sampled_from("abc"), st.integers(0, 9))
)


def change(table: Table[str, int] | dict[str, int], what: str, key: str, value: int) -> None:
    if what == "clear":
        table.clear()
    elif isinstance(table, Table):
        table.put(key, value) if what == "put" else table.drop(key)
    elif what == "put":
        table[key] = value
    else:
        table.pop(key, None)


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)), CHANGES, CHANGES)
def test_a_fork_and_a_fork_of_it_change_alone(
    rows: dict[str, int],
    changes: list[tuple[str, str, int]],
    later: list[tuple[str, str, int]],
) -> None:
    """Each behaves as a dict that was copied when it was forked."""
    table = Table(rows)
    fork, expected = table.fork(), dict(rows)
    for each in changes:
        change(fork, *each)
        change(expected, *each)
    second, second_expected = fork.fork(), dict(expected)
    for each in later:
        change(second, *each)
        change(second_expected, *each)
    assert dict(table) == rows
    assert dict(fork) == expected
    assert dict(second) == second_expected
    assert list(fork.items()) == list(expected.items())


def test_reading_a_fork_copies_nothing() -> None:
    """That is what makes a draft cheap."""
    table = Table({"a": 1})
    fork = table.fork()
    assert (fork["a"], fork.get("b"), "a" in fork, len(fork), list(fork)) == (
        1,
        None,
        True,
        1,
        ["a"],
    )
    fork.drop("b")  # is not there
    assert fork._rows is table._rows
    fork.put("b", 2)
    assert fork._rows is not table._rows


def test_a_table_is_equal_to_one_with_the_same_rows() -> None:
    """Not to a dict, and it has no hash, for it changes."""
    assert Table({"a": 1}) == Table({"a": 1})
    assert Table({"a": 1}) != Table({"a": 2})
    assert Table({"a": 1}) != {"a": 1}
    assert Table.__hash__ is None
