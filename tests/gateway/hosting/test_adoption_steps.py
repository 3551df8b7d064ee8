"""A wish to adopt a group, and its outcome."""

from gateway.hosting.adoption_steps import AdoptionOutcome, Wish


def test_a_wish_is_told_its_outcome() -> None:
    """Whoever waits for it goes on."""
    told: list[AdoptionOutcome | None] = []
    wish = Wish()
    wish.on_outcome = lambda: told.append(wish.outcome)
    outcome = AdoptionOutcome.refused("orders", "it has no members")
    wish.fulfil(outcome)
    assert told == [outcome]
    assert (outcome.is_adopted, outcome.reasons, outcome.held_ms) == (
        False,
        ("it has no members",),
        None,
    )
