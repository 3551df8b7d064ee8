"""Measures a message: the entries of its lists, and its approximate size in bytes."""

from dataclasses import fields
from functools import cache
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


def bytes_of(message: Struct, limit: int) -> int:
    """The approximate encoded size. Counting stops beyond `limit`, which bounds its cost."""
    count = 0
    rest: list[Any] = [message]
    while rest and count <= limit:
        value = rest.pop()
        count += FIELD_BYTES
        if value is None or isinstance(value, int):  # nearly always
            continue
        if isinstance(value, (str, bytes)):
            count += len(value)
        elif isinstance(value, tuple):
            rest.extend(value)
        elif isinstance(value, Struct):
            kind: Any = type(value)
            rest += [getattr(value, name) for name in _names_of(kind)]
    return count
