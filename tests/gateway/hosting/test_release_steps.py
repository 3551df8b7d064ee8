"""A wish to release a group, and its outcome."""

from gateway.hosting.release_steps import ReleaseOutcome, ReleaseWish


def test_a_wish_is_told_its_outcome() -> None:
    """Whoever waits for it goes on."""
    told: list[ReleaseOutcome | None] = []
    wish = ReleaseWish()
    wish.on_outcome = lambda: told.append(wish.outcome)
    outcome = ReleaseOutcome.refused("orders", "n uses the new protocol", "m does, too")
    wish.fulfil(outcome)
    assert told == [outcome]
    assert (outcome.is_released, len(outcome.reasons), outcome.unowned_ms) == (False, 2, None)
