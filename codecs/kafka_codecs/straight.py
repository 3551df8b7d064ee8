"""Straight readers: one function without calls for each message and version.

A straight reader is made from a construct, and reads what is sent nearly always: lengths of one
byte, no tagged fields, nothing cut off. It gives up on everything else, valid or not, and the
caller reads the bytes again with the construct. So only the construct decides what is an error.
"""

import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

from kafka_codecs.assembly import Structure
from kafka_codecs.primitives import (
    COMPACT_LENGTH,
    UUID16,
    Array,
    Bytes,
    Fixed,
    NullableStruct,
    String,
    WireType,
)


class Unusual(Exception):
    """A straight reader does not read such bytes."""


GAVE_UP = (Unusual, IndexError, ValueError, struct.error)
"""What a straight reader raises on bytes that it does not read."""

StraightReader = Callable[[bytes], tuple[Any, int]]
"""Returns the message and where it ends. That may be behind the end of the bytes, which are cut off
then. Raises GAVE_UP."""


def straight_reader(codec: Structure[Any]) -> StraightReader:
    """Make the straight reader of a message."""
    writer = _Writer()
    message = writer.structure(codec, "    ")
    lines = ["def read(data):", "    at = 0", *writer.lines, f"    return {message}, at"]
    exec("\n".join(lines), writer.names)  # noqa: S102  # the lines come from declarations alone
    read: StraightReader = writer.names["read"]
    return read


class _Writer:
    """Writes the lines that read values at `at` in `data`. Each method returns the name of the
    variable with the value."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"Unusual": Unusual, "UUID": UUID, "new": object.__new__}
        """What the lines refer to."""
        self._variables = 0

    def structure(self, codec: Structure[Any], indent: str) -> str:
        values: dict[str, str] = {}
        numbers: dict[str, Fixed] = {}  # next to each other, not read yet
        for name, wire_type in codec.members:
            if isinstance(wire_type, Fixed):
                numbers[name] = wire_type
            else:
                values |= self._numbers(numbers, indent)
                numbers = {}
                values[name] = self._value(wire_type, indent)
        values |= self._numbers(numbers, indent)
        if codec.is_flexible:
            self._add(indent, "if data[at]: raise Unusual", "at += 1")
        made = self._variable()
        kind = codec.struct_type
        self._add(indent, f"{made} = new({self._name(kind)})")
        values |= {name: self._name(default) for name, default in codec.defaults.items()}
        for name, value in values.items():
            self._add(indent, f"{self._name(getattr(kind, name).__set__)}({made}, {value})")
        return made

    def _value(self, wire_type: WireType, indent: str) -> str:
        value = self._variable()
        inner = indent + "    "
        match wire_type:
            case Fixed():
                self._add(indent, f"{value}, = {self._unpack(wire_type.layout)}(data, at)")
                self._add(indent, f"at += {wire_type.min_size}")
            case String() | Bytes():
                self._length(value, wire_type, indent)
                text = ".decode()" if isinstance(wire_type, String) else ""
                self._add(inner, f"{value} = data[at:at + size]{text}", "at += size")
            case Array():
                self._length(value, wire_type, indent)
                self._elements(value, wire_type.element, inner)
            case NullableStruct(subject=Structure() as subject):
                self._add(indent, "present = data[at]", "at += 1")
                self._add(indent, f"if present == 255: {value} = None")
                self._add(indent, "elif present != 1: raise Unusual", "else:")
                self._add(inner, f"{value} = {self.structure(subject, inner)}")
            case Structure():
                return self.structure(wire_type, indent)
            case _ if wire_type is UUID16:
                self._add(indent, f"{value} = UUID(bytes=data[at:at + 16])", "at += 16")
            case _:
                raise TypeError(f"no straight reader for {wire_type}")
        return value

    def _numbers(self, numbers: dict[str, Fixed], indent: str) -> dict[str, str]:
        """Read numbers at once."""
        if not numbers:
            return {}
        values = {name: self._variable() for name in numbers}
        layout = ">" + "".join(each.layout.removeprefix(">") for each in numbers.values())
        targets = "".join(f"{value}, " for value in values.values())
        self._add(indent, f"{targets}= {self._unpack(layout)}(data, at)")
        self._add(indent, f"at += {struct.calcsize(layout)}")
        return values

    def _length(self, value: str, wire_type: String | Bytes | Array, indent: str) -> None:
        """Read `size`, and begin the branch for a value that is not null."""
        if wire_type.length is COMPACT_LENGTH:
            self._add(indent, "size = data[at] - 1", "at += 1", "if size > 126: raise Unusual")
        else:
            assert isinstance(wire_type.length, Fixed)
            self._add(indent, f"size, = {self._unpack(wire_type.length.layout)}(data, at)")
            self._add(indent, f"at += {wire_type.length.min_size}")
        if wire_type.nullable:
            self._add(indent, f"if size == -1: {value} = None", "elif size < 0: raise Unusual")
        else:
            self._add(indent, "if size < 0: raise Unusual")
        self._add(indent, "else:")

    def _elements(self, value: str, element: WireType, indent: str) -> None:
        self._add(indent, f"if size * {element.min_size} > len(data) - at: raise Unusual")
        self._add(indent, f"{value} = []", "for _ in range(size):")
        each = self._value(element, indent + "    ")
        self._add(indent + "    ", f"{value}.append({each})")
        self._add(indent, f"{value} = tuple({value})")

    def _unpack(self, layout: str) -> str:
        return self._name(struct.Struct(layout).unpack_from)

    def _name(self, thing: Any) -> str:
        name = f"known_{len(self.names)}"
        self.names[name] = thing
        return name

    def _variable(self) -> str:
        self._variables += 1
        return f"value_{self._variables}"

    def _add(self, indent: str, *lines: str) -> None:
        self.lines += [indent + line for line in lines]
