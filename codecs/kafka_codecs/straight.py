"""Straight readers: one function for each message and version, which calls others only for long
values and tagged fields.

A straight reader is made from a construct. It gives up on bytes in which anything is wrong, and the
caller reads them again with the construct. So only the construct decides what is an error.
`straight_writer.py` has the same for writing.
"""

import struct
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from io import BytesIO
from itertools import groupby
from typing import Any
from uuid import UUID

from kafka_codecs.assembly import MALFORMED, Structure
from kafka_codecs.declaration import Struct
from kafka_codecs.primitives import (
    AS_JAVA,
    COMPACT_LENGTH,
    STRING_SIZE_MAX,
    TAGGED_FIELDS,
    UUID16,
    Array,
    Bytes,
    Fixed,
    LeftEncoded,
    NullableStruct,
    PassedOnString,
    String,
    WireType,
    text_passed_on,
)


class Unusual(Exception):
    """A straight function does not handle such bytes or such a value."""


GAVE_UP = (Unusual, IndexError, ValueError, *MALFORMED)
"""What a straight reader raises on bytes that it does not read."""

StraightReader = Callable[[bytes], tuple[Any, int]]
"""Returns the message and where it ends. That may be behind the end of the bytes, which are cut off
then. Raises GAVE_UP."""


def straight_reader(codec: Structure[Any]) -> StraightReader:
    """Make the straight reader of a message."""
    lines = _Reading()
    message = lines.structure(codec, "    ")
    read: StraightReader = lines.function("data", f"return {message}, at")
    return read


def straight_skipper(codec: Structure[Any], up_to: str) -> Callable[[bytes], int]:
    """Make a function that finds where a field of a message begins, which has been read. Raises
    GAVE_UP as a reader."""
    lines = _Reading()
    for name, wire_type in codec.members:
        if name == up_to:
            break
        lines.skip(wire_type, "    ")
    lines.add("    ", "if at > len(data): raise Unusual")
    skip: Callable[[bytes], int] = lines.function("data", "return at")
    return skip


def _long_length(data: bytes, at: int) -> tuple[int, int]:
    """A compact length of more than one byte, and where it ends."""
    stream = BytesIO(data)
    stream.seek(at)
    return COMPACT_LENGTH.read(stream), stream.tell()


def _long_size(data: bytes, at: int) -> tuple[int, int]:
    """The length of a string, as `_long_length`."""
    size, at = _long_length(data, at)
    if size > STRING_SIZE_MAX:
        raise Unusual
    return size, at


def _with_tags(codec: Structure[Any], value: Struct, data: bytes, at: int) -> tuple[Struct, int]:
    """A structure with its tagged fields, and where they end."""
    stream = BytesIO(data)
    stream.seek(at)
    tags = codec.read_tags(TAGGED_FIELDS.read(stream))
    return replace(value, **tags), stream.tell()


class Lines:
    """The lines of a straight function, and what they refer to."""

    def __init__(self, first: str, **names: Any) -> None:
        self._lines = [f"    {first}"]
        self._names: dict[str, Any] = {"Unusual": Unusual, **names}
        self._variables = 0

    def add(self, indent: str, *lines: str) -> None:
        self._lines += [indent + line for line in lines]

    def name(self, thing: Any) -> str:
        """A name for something that the lines refer to."""
        name = f"known_{len(self._names)}"
        self._names[name] = thing
        return name

    def variable(self) -> str:
        """The name of a new variable."""
        self._variables += 1
        return f"value_{self._variables}"

    def function(self, parameter: str, last: str) -> Any:
        """The function with these lines."""
        lines = [f"def straight({parameter}):", *self._lines, f"    {last}"]
        exec("\n".join(lines), self._names)  # noqa: S102  # the lines come from declarations alone
        return self._names["straight"]


class _Reading(Lines):
    """Reads values at `at` in `data`. Each method returns the name of the variable with the
    value."""

    def __init__(self) -> None:
        long = {"long_length": _long_length, "long_size": _long_size}
        super().__init__("at = 0", UUID=UUID, new=object.__new__, **long)

    def structure(self, codec: Structure[Any], indent: str) -> str:
        values: dict[str, str] = {}
        numbers: dict[str, Fixed] = {}  # next to each other, not read yet
        for name, wire_type in codec.members:
            if isinstance(wire_type, Fixed):
                numbers[name] = wire_type
            else:
                values |= self._numbers(numbers, indent)
                numbers = {}
                values[name] = self.value(wire_type, indent)
        values |= self._numbers(numbers, indent)
        made = self.variable()
        kind = codec.struct_type
        self.add(indent, f"{made} = new({self.name(kind)})")
        values |= {name: self.name(default) for name, default in codec.defaults.items()}
        for name, value in values.items():
            self.add(indent, f"{made}.{name} = {value}")
        if codec.is_flexible:
            with_tags = self.name(partial(_with_tags, codec))
            self.add(indent, f"if data[at]: {made}, at = {with_tags}({made}, data, at)")
            self.add(indent, "else: at += 1")
        return made

    def value(self, wire_type: WireType, indent: str) -> str:
        value = self.variable()
        inner = indent + "    "
        match wire_type:
            case Fixed():
                self.add(indent, f"{value}, = {self._unpack(wire_type.layout)}(data, at)")
                self.add(indent, f"at += {wire_type.min_size}")
            case String() | Bytes():
                self._length(value, wire_type, indent)
                read = "data[at:(at := at + size)]"
                if isinstance(wire_type, PassedOnString):
                    read = f"{self.name(text_passed_on)}({read})"
                elif isinstance(wire_type, String):
                    read = f"{read}.decode('utf-8', {AS_JAVA!r})"
                self.add(inner, f"{value} = {read}")
            case Array():
                self._length(value, wire_type, indent)
                self._elements(value, wire_type.element, inner)
            case NullableStruct(subject=Structure() as subject):
                self.add(indent, "present = data[at]", "at += 1")
                self.add(indent, f"if present == 255: {value} = None")
                self.add(indent, "elif present != 1: raise Unusual", "else:")
                self.add(inner, f"{value} = {self.structure(subject, inner)}")
            case Structure():
                return self.structure(wire_type, indent)
            case _ if wire_type is UUID16:
                self.add(indent, f"{value} = UUID(bytes=data[at:at + 16])", "at += 16")
            case LeftEncoded():
                start = self.variable()
                self.add(indent, f"{start} = at")
                self.skip(wire_type.subject, indent)
                self.add(indent, f"{value} = data[{start}:at]")
            case _:
                raise TypeError(f"no straight reader for {wire_type}")
        return value

    def skip(self, wire_type: WireType, indent: str) -> None:
        """Check the structure of a value, but no text, and find its end."""
        inner = indent + "    "
        match wire_type:
            case Structure():
                for is_fixed, members in groupby(
                    wire_type.members, lambda member: isinstance(member[1], Fixed)
                ):
                    if is_fixed:
                        self.add(indent, f"at += {sum(fixed.min_size for _, fixed in members)}")
                    else:
                        for _, member in members:
                            self.skip(member, indent)
                if wire_type.is_flexible:
                    self.add(indent, "if data[at]: raise Unusual", "at += 1")
            case Array(element=Fixed() as element):
                self._length(self.variable(), wire_type, indent)
                self.add(inner, f"at += size * {element.min_size}")
            case Array():
                self._length(self.variable(), wire_type, indent)
                self._repeat(wire_type.element, inner)
                self.skip(wire_type.element, inner + "    ")
            case Fixed():
                self.add(indent, f"at += {wire_type.min_size}")
            case String() | Bytes():
                self._length(self.variable(), wire_type, indent)
                self.add(inner, "at += size")
            case _:
                raise TypeError(f"no straight reader passes {wire_type}")

    def _numbers(self, numbers: dict[str, Fixed], indent: str) -> dict[str, str]:
        """Read numbers at once."""
        if not numbers:
            return {}
        values = {name: self.variable() for name in numbers}
        layout = ">" + "".join(number.layout.removeprefix(">") for number in numbers.values())
        targets = "".join(f"{value}, " for value in values.values())
        self.add(indent, f"{targets}= {self._unpack(layout)}(data, at)")
        self.add(indent, f"at += {struct.calcsize(layout)}")
        return values

    def _length(self, value: str, wire_type: String | Bytes | Array, indent: str) -> None:
        """Read `size`, and begin the branch for a value that is not null."""
        if wire_type.length is COMPACT_LENGTH:
            long = "long_size" if isinstance(wire_type, String) else "long_length"
            self.add(indent, "size = data[at] - 1", "if size < 127: at += 1")
            self.add(indent, f"else: size, at = {long}(data, at)")
        else:
            assert isinstance(wire_type.length, Fixed)  # of a string, it cannot exceed the limit
            self.add(indent, f"size, = {self._unpack(wire_type.length.layout)}(data, at)")
            self.add(indent, f"at += {wire_type.length.min_size}")
        if wire_type.nullable:
            self.add(indent, f"if size == -1: {value} = None", "elif size < 0: raise Unusual")
        else:
            self.add(indent, "if size < 0: raise Unusual")
        self.add(indent, "else:")

    def _elements(self, value: str, element: WireType, indent: str) -> None:
        self.add(indent, f"{value} = []")
        self._repeat(element, indent)
        variable = self.value(element, indent + "    ")
        self.add(indent + "    ", f"{value}.append({variable})")
        self.add(indent, f"{value} = tuple({value})")

    def _repeat(self, element: WireType, indent: str) -> None:
        """Begin the loop over `size` elements."""
        self.add(indent, f"if size * {element.min_size} > len(data) - at: raise Unusual")
        self.add(indent, "for _ in range(size):")

    def _unpack(self, layout: str) -> str:
        return self.name(struct.Struct(layout).unpack_from)
