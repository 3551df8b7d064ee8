"""What becomes of requests to move a group."""

from gateway.hosting.move_requests import AdoptionOutcome, NewProtocol, ReleaseOutcome


def test_a_refused_adoption_has_its_reason() -> None:
    """Nothing was begun, so no call was held."""
    outcome = AdoptionOutcome.refuse("orders", "it has no members")
    assert outcome.reasons == ("it has no members",)
    assert not outcome.is_adopted
    assert outcome.held_ms is None


def test_a_refused_release_has_all_of_its_reasons() -> None:
    """The operator sees them at the same time."""
    outcome = ReleaseOutcome.refuse("orders", "n uses the new protocol", "m does, too")
    assert (outcome.is_released, len(outcome.reasons), outcome.unowned_ms) == (False, 2, None)


def test_a_cluster_takes_what_nothing_speaks_against() -> None:
    assert NewProtocol().takes_natives
    assert NewProtocol().takes_mixed
    assert not NewProtocol(why_no_natives="it is 3.9").takes_natives
    assert not NewProtocol(why_not_mixed="it is told not to").takes_mixed
