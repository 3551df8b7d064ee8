"""Straight writers: one function for each message and version, which calls others only for long
values and tagged fields.

A straight writer is made from a construct. It gives up on a value that the version cannot carry,
and the caller writes it again with the construct. So only the construct says what is wrong.
"""

import struct
from collections.abc import Callable, Iterable
from functools import partial
from io import BytesIO
from typing import Any

from kafka_codecs.assembly import Structure
from kafka_codecs.declaration import Struct
from kafka_codecs.primitives import (
    COMPACT_LENGTH,
    NO_TAGS,
    NULL,
    ONE_BYTE,
    STRING_SIZE_MAX,
    UUID16,
    UVARINT,
    Array,
    Bytes,
    Fixed,
    LeftEncoded,
    NullableStruct,
    String,
    WireType,
    build_all,
)
from kafka_codecs.straight import Lines

StraightWriter = Callable[[Struct], bytes]
"""Returns the bytes of a message. Raises GAVE_UP."""


def straight_writer(codec: Structure[Any], up_to: str | None = None) -> StraightWriter:
    """Make the straight writer of a message, or of its fields before this one."""
    lines = _Writing()
    if up_to is None:
        lines.structure(codec, "message", "    ")
    else:
        names = [name for name, _ in codec.members]
        lines.members(codec.members[: names.index(up_to)], "message", "    ")
    write: StraightWriter = lines.function("message", "return join(parts)")
    return write


def _tags(codec: Structure[Any], value: Struct) -> bytes:
    stream = BytesIO()
    codec.write_tags(value, stream)
    return stream.getvalue()


class _Writing(Lines):
    """Appends values to `parts`. Each method gets the expression of the value."""

    def __init__(self) -> None:
        super().__init__(
            "add = (parts := []).append",
            join=b"".join,
            no_tags=NO_TAGS,
            one_byte=ONE_BYTE,
            long_length=partial(build_all, UVARINT),
        )

    def structure(self, codec: Structure[Any], value: str, indent: str) -> None:
        for name, default in codec.absent:
            self.add(indent, f"if {value}.{name} != {self.name(default)}: raise Unusual")
        self.members(codec.members, value, indent)
        if codec.is_flexible:
            known = [
                f"{value}.{tag.name} != {self.name(tag.default)}" for tag in codec.tags.values()
            ]
            has_tags = " or ".join([f"{value}.unknown_tags", *known])
            tags = f"{self.name(partial(_tags, codec))}({value})"
            self.add(indent, f"add({tags} if {has_tags} else no_tags)")

    def members(self, members: Iterable[tuple[str, WireType]], value: str, indent: str) -> None:
        numbers: list[tuple[str, Fixed]] = []  # next to each other, not written yet
        for name, wire_type in members:
            if isinstance(wire_type, Fixed):
                numbers.append((f"{value}.{name}", wire_type))
            else:
                self._numbers(numbers, indent)
                numbers = []
                self._value(wire_type, f"{value}.{name}", indent)
        self._numbers(numbers, indent)

    def _value(self, wire_type: WireType, value: str, indent: str) -> None:
        match wire_type:
            case Fixed():
                self._numbers([(value, wire_type)], indent)
            case String() | Bytes() | Array():
                self._write_sized(wire_type, value, indent)
            case NullableStruct(subject=Structure() as subject):
                self.add(indent, f"if {value} is None: add(one_byte[255])", "else:")
                self.add(indent + "    ", "add(one_byte[1])")
                self.structure(subject, value, indent + "    ")
            case Structure():
                self.structure(wire_type, value, indent)
            case _ if wire_type is UUID16:
                self.add(indent, f"add({value}.bytes)")
            case LeftEncoded():
                self.add(indent, f"add({value})")
            case _:
                raise TypeError(f"no straight writer for {wire_type}")

    def _numbers(self, numbers: list[tuple[str, Fixed]], indent: str) -> None:
        """Write numbers at once."""
        if numbers:
            layout = ">" + "".join(fixed.layout.removeprefix(">") for _, fixed in numbers)
            values = ", ".join(value for value, _ in numbers)
            self.add(indent, f"add({self.name(struct.Struct(layout).pack)}({values}))")

    def _write_sized(self, wire_type: String | Bytes | Array, value: str, indent: str) -> None:
        made, inner = self.variable(), indent + "    "
        null = f"add({self.name(build_all(wire_type.length, NULL))})"
        self.add(indent, f"{made} = {value}")
        self.add(indent, f"if {made} is None: {null if wire_type.nullable else 'raise Unusual'}")
        self.add(indent, "else:")
        if isinstance(wire_type, String):
            self.add(inner, f"{made} = {made}.encode()")
            self.add(inner, f"if len({made}) > {STRING_SIZE_MAX}: raise Unusual")
        if wire_type.length is COMPACT_LENGTH:
            self.add(inner, f"size = len({made}) + 1")
            self.add(inner, "add(one_byte[size] if size < 128 else long_length(size))")
        else:
            assert isinstance(wire_type.length, Fixed)
            self._numbers([(f"len({made})", wire_type.length)], inner)
        if isinstance(wire_type, Array):
            variable = self.variable()
            self.add(inner, f"for {variable} in {made}:")
            self._value(wire_type.element, variable, inner + "    ")
        else:
            self.add(inner, f"add({made})")
