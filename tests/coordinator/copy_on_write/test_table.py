"""A mapping whose forks store only their own writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.copy_on_write.table import Table

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
def test_forks_change_independently(
    rows: dict[str, int],
    changes: list[tuple[str, str, int]],
    later: list[tuple[str, str, int]],
) -> None:
    """Each behaves like a dict that was copied at the fork."""
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


def test_a_fork_stores_only_its_own_writes() -> None:
    """A step is therefore cheap, however many rows there are."""
    table = Table({n: n for n in range(1_000)})
    fork = table.fork()
    assert fork._borrowed is table._own
    fork.put(1, 11)
    fork.put(1_000, 12)
    fork.drop(2)
    fork.drop(-1)  # a key without a row
    assert fork._borrowed is table._own
    assert (fork._own, fork._hidden) == ({1: 11, 1_000: 12}, {2})
    assert len(fork) == 1_000
    with pytest.raises(KeyError):
        fork[2]


def test_tables_with_the_same_rows_are_equal() -> None:
    """A table never equals a dict, and has no hash, because it is mutable."""
    assert Table({"a": 1}) == Table({"a": 1})
    assert Table({"a": 1}) != Table({"a": 2})
    assert Table({"a": 1}) != {"a": 1}
    assert Table.__hash__ is None
