"""Unwraps errors from nurseries, which arrive in groups even when there is only one."""

from typing import TypeVar

_E = TypeVar("_E", bound=BaseException)


def first_of(group: BaseExceptionGroup[_E]) -> _E:
    """The first error of a group, at any depth, because a log line is about one error."""
    first = group.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first
