"""The protocol of a classic group (rules 2.2 row 7, 2.5)."""

from collections import Counter

import pytest

from coordinator.classic.protocols import is_acceptable, select_protocol, supported_by_all
from coordinator.interface.records import Protocols


def offering(*names: str) -> Protocols:
    return tuple((name, b"") for name in names)


@pytest.mark.parametrize(
    ("lists", "common"),
    [
        ([], set()),
        (["ab"], {"a", "b"}),
        (["ab", "bc"], {"b"}),
        (["ab", "bc", "ca"], set()),
    ],
)
def test_supported_protocols_are_in_every_list(lists: list[str], common: set[str]) -> None:
    """The result has exactly the names in every list."""
    assert supported_by_all(offering(*names) for names in lists) == common


@pytest.mark.parametrize(
    ("offered", "others", "fits"),
    [
        ("", [], False),
        ("a", [], True),
        ("ac", ["ab", "ba"], True),
        ("c", ["ab"], False),
        ("a", ["ab", "b"], False),
        ("", ["a"], False),
        ("aa", [], False),
        ("aba", ["a"], False),
    ],
)
def test_a_joiner_must_share_a_protocol_with_all_members(
    offered: str, others: list[str], fits: bool
) -> None:
    """The list must contain a protocol that all others support; a first member needs any list. DEV
    D38: a name must not occur twice."""
    offers = Counter(name for names in others for name in names)
    assert is_acceptable(offering(*offered), offers, len(others)) is fits


@pytest.mark.parametrize(
    ("lists", "winner"),
    [
        (["a"], "a"),
        (["ab", "ba", "ba"], "b"),
        (["cab", "ab", "ba"], "a"),
        (["xb", "ab"], "b"),
        (["ba", "ab"], "a"),
    ],
)
def test_the_vote(lists: list[str], winner: str) -> None:
    """Each member votes for its first common protocol. A tie goes to the first name in the
    alphabet."""
    assert select_protocol([offering(*names) for names in lists]) == winner
