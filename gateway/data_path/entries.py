"""Measures a message: the entries of its lists, and its approximate size in bytes."""

from dataclasses import fields
from typing import Any

from kafka_codecs.declaration import Struct

FIELD_BYTES = 4
"""The average size of a number, or of the length of a list or string."""


def entries_of(message: Struct) -> int:
    """The entries of all lists in a message, nested ones included."""
    count = 0
    for field in fields(message):
        entries = getattr(message, field.name)
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
        if isinstance(value, Struct):
            rest.extend(getattr(value, field.name) for field in fields(value))
        elif isinstance(value, (str, bytes)):
            count += len(value)
        elif isinstance(value, tuple):
            rest.extend(value)
    return count
