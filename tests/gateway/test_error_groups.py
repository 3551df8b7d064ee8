"""Errors that left a nursery."""

from gateway.error_groups import first_of


def test_the_first_error_is_found_in_groups_of_groups() -> None:
    """Each nursery on the way out wraps the error once more."""
    first = ValueError("first")
    inner = ExceptionGroup("inner", [first, ValueError("second")])
    assert first_of(ExceptionGroup("outer", [inner, ValueError("third")])) is first
