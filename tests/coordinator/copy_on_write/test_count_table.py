"""Counts derived from other tables."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.copy_on_write.count_table import CountTable


@given(st.lists(st.text("abc"), max_size=8), st.data())
def test_a_count_is_additions_minus_removals(words: list[str], data: st.DataObject) -> None:
    """A key with count zero has no row. Forks count independently."""
    tally: CountTable[str] = CountTable()
    for word in words:
        tally.add(word)
    fork = tally.fork()
    removed = data.draw(st.lists(st.sampled_from(words), unique_by=id)) if words else []
    kept = Counter("".join(words))
    for word in removed:
        if Counter(word) <= kept:
            fork.remove(word)
            kept -= Counter(word)
    assert dict(tally) == Counter("".join(words))
    assert dict(fork) == kept


def test_removing_an_absent_key_fails() -> None:
    """A wrong count is a bug, which must show."""
    with pytest.raises(KeyError):
        CountTable[str]().remove("a")
