"""The outcome of a wish to adopt a group."""

from gateway.hosting.adoption_steps import AdoptionOutcome


def test_a_refusal_has_its_reason() -> None:
    """Nothing was begun, so no call was held."""
    outcome = AdoptionOutcome.refused("orders", "it has no members")
    assert (outcome.is_adopted, outcome.reasons, outcome.held_ms) == (
        False,
        ("it has no members",),
        None,
    )
