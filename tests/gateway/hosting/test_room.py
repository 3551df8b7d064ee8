"""The limits of groups in total and per client address."""

import pytest

from gateway.hosting.room import Room, TooManyGroups
from gateway.quotas.owner import Owner
from gateway.quotas.remembered import LONG_NAME_CHARS
from gateway.quotas.shares import ShareRule

GREEDY, MODEST = Owner("10.0.0.1"), Owner("10.0.0.2")


def test_one_address_leaves_room_for_others() -> None:
    """Its own limit is reached first, and reported."""
    complaints: list[tuple[Owner, str, int]] = []
    room = Room(
        "hosted",
        groups_max=3,
        share=ShareRule(per_address=2),
        complain=lambda *complaint: complaints.append(complaint),
    )
    room.take("a", GREEDY)
    room.take("b", GREEDY)
    with pytest.raises(TooManyGroups, match="the limit of 2 hosted groups per client address"):
        room.check(GREEDY)
    assert complaints == [(GREEDY, "too many hosted groups from this client address", 2)]
    room.check(MODEST)
    room.take("c", MODEST)
    with pytest.raises(TooManyGroups, match="the limit of 3 hosted groups is reached"):
        room.check(MODEST)


def test_a_group_without_a_client_counts_only_in_total() -> None:
    """It was loaded from the state log at the start."""
    room = Room("hosted", groups_max=2, share=ShareRule(per_address=1))
    for group_id in ("a", "b"):
        room.check(None)
        room.take(group_id, None)
    with pytest.raises(TooManyGroups):
        room.check(None)


def test_a_group_that_ends_makes_room_for_its_address() -> None:
    """Its last member does not matter."""
    room = Room("hosted", groups_max=3, share=ShareRule(per_address=1))
    room.take("a", GREEDY)
    room.give_back("a")
    room.check(GREEDY)
    room.take("b", GREEDY)
    with pytest.raises(TooManyGroups):
        room.check(GREEDY)


def test_a_principal_has_a_limit_of_its_own() -> None:
    """Wherever it connects from, and whatever else comes from there."""
    room = Room("hosted", groups_max=9, share=ShareRule(per_address=1, per_principal=2))
    alice = Owner("10.0.0.1", is_principal=True)
    room.take("a", GREEDY)
    room.take("b", alice)
    room.check(alice)
    room.take("c", alice)
    with pytest.raises(TooManyGroups, match="the limit of 2 hosted groups per user"):
        room.check(alice)
    room.check(MODEST)


def test_a_group_is_in_the_room_until_it_gives_its_place_back() -> None:
    """Whoever began it."""
    room = Room("hosted", groups_max=1, share=ShareRule(per_address=1))
    assert not room.has("orders")
    room.take("orders", None)
    assert room.has("orders")
    room.give_back("orders")
    assert not room.has("orders")


def test_a_group_with_a_long_name_counts_as_many() -> None:
    """Towards its owner and in total, until it ends."""
    room = Room("hosted", groups_max=6, share=ShareRule(per_address=4))
    long = "x" * 3 * LONG_NAME_CHARS
    room.take(long, GREEDY)
    with pytest.raises(TooManyGroups, match="the limit of 4 hosted groups per client address"):
        room.check(GREEDY)
    room.check(MODEST)
    room.take("b", MODEST)
    room.take("c", MODEST)
    with pytest.raises(TooManyGroups, match="the limit of 6 hosted groups is reached"):
        room.check(MODEST)
    room.give_back(long)
    room.check(GREEDY)
    assert room.count == 2
