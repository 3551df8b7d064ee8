"""Errors that left a nursery come in groups, even when there is only one.

Owns how one of them is told. Must not know any error by name.
"""

from typing import TypeVar

_E = TypeVar("_E", bound=BaseException)


def first_of(group: BaseExceptionGroup[_E]) -> _E:
    """The first error of a group, however deep it sits: one line of log is about one error."""
    first = group.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first
