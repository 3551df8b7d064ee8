"""How much work a decoded request is: the entries of its lists, however few their bytes.

It knows messages as values only, not what they ask for.
"""

from dataclasses import fields

from kafka_codecs.declaration import Struct


def entries_of(message: Struct) -> int:
    """The entries of all lists in a message, nested ones included."""
    count = 0
    for field in fields(message):
        entries = getattr(message, field.name)
        if isinstance(entries, tuple):
            count += len(entries)
            count += sum(entries_of(entry) for entry in entries if isinstance(entry, Struct))
    return count
