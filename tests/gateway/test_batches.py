"""Splitting long lists."""

import pytest

from gateway import batches as module
from gateway.batches import batches


@pytest.mark.parametrize(
    ("items", "parts"),
    [("", []), ("a", ["a"]), ("abcd", ["ab", "cd"]), ("abcde", ["ab", "cd", "e"])],
)
def test_the_parts_keep_order_and_content(items: str, parts: list[str]) -> None:
    """The last one may be shorter."""
    assert ["".join(part) for part in batches(items, 2)] == parts


def test_names_are_split_at_the_default_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit has a name."""
    monkeypatch.setattr(module, "NAMES_TOGETHER_MAX", 3)
    assert [len(part) for part in batches(range(7))] == [3, 3, 1]
