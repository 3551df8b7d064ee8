"""Measures a message: the entries of its lists, and its approximate size in bytes."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any

from kafka_codecs.declaration import Struct

FIELD_BYTES = 4
"""The average size of a number, or of the length of a list or string."""


@cache
def _names_of(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def entries_of(message: Struct) -> int:
    """The entries of all lists in a message, nested ones included."""
    count = 0
    kind: Any = type(message)  # mypy considers a class that defines __hash__ unhashable
    for name in _names_of(kind):
        entries = getattr(message, name)
        if isinstance(entries, tuple):
            count += len(entries)
            count += sum(entries_of(entry) for entry in entries if isinstance(entry, Struct))
    return count


@cache
def _values_of(kind: Any) -> Callable[[Struct], Sequence[Any]]:
    return attrgetter(*_names_of(kind))


def bytes_of(message: Struct, limit: int) -> int:
    """The approximate encoded size. Counting stops beyond `limit`, which bounds its cost."""
    count = 0
    rest: list[Sequence[Any]] = [(message,)]
    while rest:
        for value in rest.pop():
            count += FIELD_BYTES
            kind: Any = type(value)
            if not value:  # as most fields are
                pass
            elif kind is str or kind is bytes:
                count += len(value)
            elif kind is tuple and type(value[0]) is int:  # as all its entries
                count += FIELD_BYTES * len(value)
            elif kind is tuple:
                rest.append(value)
            elif isinstance(value, Struct):
                rest.append(_values_of(kind)(value))
            if count > limit:
                return count
    return count
