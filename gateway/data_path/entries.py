"""How much work a message is: the entries of its lists, however few their bytes, and its bytes.

It knows messages as values only, not what they ask for.
"""

from dataclasses import fields
from typing import Any

from kafka_codecs.declaration import Struct

FIELD_BYTES = 4
"""What a number, or the length of a list or text, takes on average."""


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
    """About how long a message becomes when it is encoded. Counting ends beyond `limit`, so that
    asking whether a message is long costs no more for a longer one."""
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
