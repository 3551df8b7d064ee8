"""The outcome of a wish to release a group."""

from gateway.hosting.release_steps import ReleaseOutcome


def test_a_refusal_has_all_of_its_reasons() -> None:
    """The operator sees them at the same time."""
    outcome = ReleaseOutcome.refused("orders", "n uses the new protocol", "m does, too")
    assert (outcome.is_released, len(outcome.reasons), outcome.unowned_ms) == (False, 2, None)
