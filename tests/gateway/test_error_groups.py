"""Errors from nested nurseries."""

from gateway.error_groups import first_of


def test_the_first_error_is_found_in_nested_groups() -> None:
    """Each nursery wraps the error once more."""
    first = ValueError("first")
    inner = ExceptionGroup("inner", [first, ValueError("second")])
    assert first_of(ExceptionGroup("outer", [inner, ValueError("third")])) is first
