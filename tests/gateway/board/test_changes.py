"""What a look at the list of groups shows of the changes since an earlier one."""

from collections.abc import Mapping

import pytest

from gateway.board import changes as module
from gateway.board.changes import Changes

START = 1_000


def look(changes: Changes, marks: Mapping[str, int], since: int) -> tuple[set[str], set[str]]:
    """Look at groups with these marks. Returns those that have changed, and those that are gone."""
    changes.begin(marks.keys())
    shown = {name for name, mark in marks.items() if changes.record(name, mark) > since}
    return shown, set(changes.gone_since(since))


def test_a_look_shows_what_has_another_mark() -> None:
    """Each onlooker goes by its own earlier look."""
    changes = Changes(START)
    assert look(changes, {"a": 1, "b": 1}, 0) == ({"a", "b"}, set())
    first = changes.revision
    assert look(changes, {"a": 1, "b": 2}, first) == ({"b"}, set())
    assert look(changes, {"a": 1, "b": 2}, first) == ({"b"}, set())
    assert look(changes, {"a": 1, "b": 2}, changes.revision) == (set(), set())


def test_a_group_that_is_gone_is_listed_until_it_comes_back() -> None:
    changes = Changes(START)
    look(changes, {"a": 1, "b": 1}, 0)
    first = changes.revision
    assert look(changes, {"a": 1}, first) == (set(), {"b"})
    second = changes.revision
    assert look(changes, {"a": 1}, second) == (set(), set())
    assert look(changes, {"a": 1, "b": 1}, first) == ({"b"}, set())


def test_an_earlier_process_or_none_has_seen_nothing() -> None:
    """Marks of an earlier process, and marks that have not been given yet, are unknown."""
    changes = Changes(START)
    assert not changes.knows_since(0)
    assert not changes.knows_since(START)
    look(changes, {}, 0)
    assert changes.knows_since(START + 1)
    assert not changes.knows_since(START + 2)


def test_the_groups_that_are_gone_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look since an earlier one is complete."""
    monkeypatch.setattr(module, "GONE_MAX", 2)
    changes = Changes(START)
    look(changes, dict.fromkeys("abcd", 1), 0)
    first = changes.revision
    look(changes, dict.fromkeys("bcd", 1), 0)
    second = changes.revision
    look(changes, dict.fromkeys("d", 1), 0)
    assert not changes.knows_since(first)
    assert changes.knows_since(second)
    assert set(changes.gone_since(second)) == {"b", "c"}
