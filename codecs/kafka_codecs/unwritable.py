"""Finds texts in a message that replacements have made too long to be written.

Kafka reads them, and fails when it has to write them: to a log, or into an answer.
"""

from dataclasses import fields
from functools import cache
from typing import Any, get_args, get_type_hints

from kafka_codecs.declaration import Struct
from kafka_codecs.primitives import STRING_SIZE_MAX, PassedOn, UnwritableText

_REPLACEMENT_BYTES = 3
UNWRITABLE_FROM_BYTES = STRING_SIZE_MAX // _REPLACEMENT_BYTES + 1
"""The fewest bytes that such a text has: each may become a replacement character."""


def has_unwritable_text(message: Struct) -> bool:
    """Whether a text of the message is unwritable. Texts that are only passed on do not count."""
    kind: Any = type(message)  # mypy considers a class that defines __hash__ unhashable
    return any(_is_unwritable(getattr(message, name)) for name in _fields_with_text(kind))


def _is_unwritable(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_unwritable, value))
    return (
        has_unwritable_text(value) if isinstance(value, Struct) else type(value) is UnwritableText
    )


@cache
def _fields_with_text(struct_type: Any) -> tuple[str, ...]:
    """The fields that can hold texts, themselves or further inside."""
    hints = get_type_hints(struct_type, include_extras=True)
    names = (field.name for field in fields(struct_type))
    return tuple(name for name in names if _can_hold_text(hints[name]))


def _can_hold_text(hint: Any) -> bool:
    if hint == PassedOn:
        return False
    if isinstance(hint, type) and issubclass(hint, Struct):
        kind: Any = hint  # as above
        return bool(_fields_with_text(kind))
    return hint is str or any(map(_can_hold_text, get_args(hint)))
