"""The one rule by which owners share a limit."""

from itertools import count

import pytest

from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import SharedTotal, ShareRule

ALICE, MALLORY = QuotaKey("alice", is_principal=True), QuotaKey("mallory", is_principal=True)
SOMEWHERE = QuotaKey("10.0.0.1")


def take_all(total: SharedTotal, owner: QuotaKey) -> int:
    """Take one after the other while there is room. Returns how many that were."""
    for number in count():
        if not total.has_room(owner):
            return number
        total.take(owner)
    raise AssertionError


def test_each_owner_gets_half_of_what_the_others_leave() -> None:
    """This holds for the first owner, however many clients it stands for, and for later ones."""
    total = SharedTotal(100)
    assert [take_all(total, QuotaKey(f"10.0.0.{number}")) for number in range(5)] == [
        *(50, 25, 12, 6, 3),
    ]


def test_the_last_one_is_for_an_owner_that_has_none() -> None:
    total = SharedTotal(2)
    assert [take_all(total, owner) for owner in (ALICE, MALLORY, SOMEWHERE)] == [1, 1, 0]


def test_what_one_owner_frees_another_may_take() -> None:
    """The share of the others grows with it."""
    total = SharedTotal(100)
    take_all(total, ALICE)
    assert take_all(total, MALLORY) == 25
    total.free(ALICE, 50)
    assert (total.limit_of(MALLORY), total.limit_of(ALICE)) == (50, 37)
    assert take_all(total, MALLORY) == 25
    total.free(MALLORY, 50)
    assert total.used == 0


def test_settings_replace_the_rule() -> None:
    """The settings may change, as may the total. Entries that exceed them stay."""
    total = SharedTotal(10, ShareRule(per_address=2, per_principal=9))
    assert (take_all(total, SOMEWHERE), take_all(total, ALICE)) == (2, 8)
    total.total, total.rule = 20, ShareRule(per_principal=8)
    assert (take_all(total, SOMEWHERE), take_all(total, ALICE)) == (4, 0)


def test_the_gateway_itself_has_no_share() -> None:
    """The gateway restores what it had before a restart."""
    total = SharedTotal(4)
    total.take(None, 4)
    assert not total.has_room(None)
    total.free(None)
    assert total.has_room(None)
    assert total.has_room(ALICE)


@pytest.mark.parametrize(("size", "fits"), [(50, True), (51, False)])
def test_much_at_a_time_fits_within_the_share(size: int, *, fits: bool) -> None:
    total = SharedTotal(100)
    assert total.has_room(ALICE, size) is fits
