"""Which client-side assignor a group uses, and who can run it (rule 9.7)."""

import pytest

from coordinator.group.client_assignors import (
    AssignorOffer,
    AssignorOffers,
    can_run,
    offers_of,
    overlap,
    select_assignor,
    versions_in_use,
)
from coordinator.interface.records import ClassicMetadata, Member
from tests.support.client_assignors import weighted_assignor

CLASSIC = AssignorOffer("w", -1, -1, -1, is_native=False)


def offer(
    minimum: int, maximum: int, version: int | None = None, name: str = "w"
) -> AssignorOffers:
    return (AssignorOffer(name, minimum, maximum, maximum if version is None else version),)


def test_a_member_offers_its_assignors_and_a_classic_one_its_protocols() -> None:
    """The metadata of a classic member has version -1."""
    member = Member(
        member_id="m",
        client_id="",
        client_host="",
        rebalance_timeout_ms=1,
        client_assignors=(weighted_assignor(1, 3, version=2),),
    )
    assert offers_of(member) == (AssignorOffer("weighted", 1, 3, 2),)
    classic = Member(
        member_id="m",
        client_id="",
        client_host="",
        rebalance_timeout_ms=1,
        classic=ClassicMetadata(session_timeout_ms=1, protocols=(("w", b""), ("x", b""))),
    )
    assert [offer[:4] for offer in offers_of(classic)] == [("w", -1, -1, -1), ("x", -1, -1, -1)]


@pytest.mark.parametrize(
    ("lists", "assignor"),
    [
        ([], None),
        ([()], None),
        ([offer(0, 3)], "w"),
        ([offer(0, 3), ()], None),
        ([offer(0, 3), offer(0, 3, name="x")], None),
        ([offer(0, 3, 1), offer(2, 5)], None),
        ([offer(0, 5, 1), offer(2, 5)], "w"),
        ([offer(0, 5), (CLASSIC,)], None),
        ([offer(-1, 5), (CLASSIC,)], "w"),
        ([(CLASSIC,)], None),
    ],
)
def test_an_assignor_needs_the_support_of_all_and_a_native_member_that_can_run_it(
    lists: list[AssignorOffers], assignor: str | None
) -> None:
    """The member has to handle the versions in use, not all that others handle."""
    assert select_assignor(dict.fromkeys(lists, 1)) == assignor


def test_most_first_preferences_among_the_candidates_count() -> None:
    """A tie is decided by name."""
    a, b, c = (offer(0, 1, name=name) for name in "abc")
    assert select_assignor({b + a: 1, a + b: 1}) == "a"
    assert select_assignor({b + a: 2, a + b: 1}) == "b"
    assert select_assignor({c + b + a: 5, a + b: 2, b + a: 1}) == "b"


def test_who_can_run_an_assignor_handles_every_version_in_use() -> None:
    offers = [offer(1, 5), offer(3, 4), offer(2, 4, 2)]
    in_use = versions_in_use(offers)
    assert in_use == {"w": (2, 5)}
    assert [can_run(offer, "w", in_use) for offer in offers] == [True, False, False]
    assert not can_run(offer(1, 5), "x", in_use)


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        (offer(0, 3), [], True),
        (offer(0, 3), [()], True),
        (offer(0, 3), [offer(9, 9, name="x")], True),
        (offer(0, 3), [offer(4, 5)], False),
        (offer(0, 3), [offer(4, 5), offer(3, 3)], True),
        (offer(0, 3), [(CLASSIC,)], False),
        (offer(-1, 3), [(CLASSIC,)], True),
        (offer(0, 3) + offer(0, 0, name="x"), [offer(4, 5) + offer(0, 9, name="x")], True),
    ],
)
def test_versions_overlap_with_those_of_some_member(
    own: AssignorOffers, others: list[AssignorOffers], *, expected: bool
) -> None:
    """The versions overlap for at least one assignor that both support, if there is any."""
    assert overlap(own, others) is expected
