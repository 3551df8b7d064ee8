"""Kafka's primitive wire types as construct leaves.

A reader compares every length with the remaining bytes before it allocates anything.

The types read from and write to `io.BytesIO`. They call each other directly and bypass construct's
context and path, which halves the time per message; `assembly` adds the name of the failing field
to an error.
"""

import codecs
import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from io import SEEK_END, BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Generic, Self, TypeVar
from uuid import UUID

from construct import Construct, IntegerError, RangeError, StreamError, StringError, TerminatedError

if TYPE_CHECKING:
    AnyConstruct = Construct[Any, Any]
else:  # Construct is generic only in its type stubs
    AnyConstruct = Construct

_T = TypeVar("_T")

NULL = -1
"""The length that stands for null."""

UVARINT_MAX = 2**32 - 1
"""The largest unsigned varint; at seven bits per byte it takes five bytes."""

STRING_SIZE_MAX = 0x7FFF
"""Bytes of UTF-8 in the longest string; Kafka limits compact strings likewise."""
UTF_8_SIZE_MAX = 4
"""The most bytes that UTF-8 needs for one character."""


class WireType(AnyConstruct, ABC):
    """A construct without context or path; `min_size` is the least number of bytes it takes."""

    min_size: int

    @abstractmethod
    def read(self, stream: BytesIO) -> Any:
        """Read one value from the stream."""

    @abstractmethod
    def write(self, value: Any, stream: BytesIO) -> None:
        """Append one value to the stream."""

    def _parse(self, stream: Any, context: Any, path: Any) -> Any:  # noqa: ARG002 construct's own
        return self.read(stream)

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> Any:  # noqa: ARG002 as above
        self.write(obj, stream)
        return obj


def take(stream: BytesIO, size: int) -> bytes:
    """Read exactly `size` bytes; `BytesIO` never allocates more than it holds."""
    data = stream.read(size)
    if len(data) != size:
        raise StreamError(f"{size} bytes wanted, {len(data)} left")
    return data


def remaining(stream: BytesIO) -> int:
    """Bytes not yet read. (`getbuffer()` would copy a buffer that it shares with its source.)"""
    here = stream.tell()
    end = stream.seek(0, SEEK_END)
    stream.seek(here)
    return end - here


class Fixed(WireType):
    """A fixed-width number, big-endian."""

    def __init__(self, layout: str) -> None:
        super().__init__()
        self.layout = layout
        packer = struct.Struct(layout)
        self.min_size = packer.size
        self._unpack = packer.unpack
        self._pack = packer.pack

    def read(self, stream: BytesIO) -> Any:
        return self._unpack(stream.read(self.min_size))[0]

    def write(self, value: Any, stream: BytesIO) -> None:
        stream.write(self._pack(value))


class _UVarint(WireType):
    """An unsigned number of at most 32 bits, seven per byte, lowest first (KIP-482)."""

    min_size = 1

    def read(self, stream: BytesIO) -> int:
        return self.read_after(stream.read(1), stream)

    def read_after(self, first: bytes, stream: BytesIO) -> int:
        """Read the rest of a number that begins with this byte."""
        if not first:
            raise StreamError("1 bytes wanted, 0 left")
        byte = first[0]
        if byte < 0x80:  # nearly always
            return byte
        value = byte & 0x7F
        for shift in (7, 14, 21, 28):
            byte = take(stream, 1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        if byte > 0x7F or value > UVARINT_MAX:
            raise IntegerError("varint above 32 bits")
        return value

    def write(self, value: int, stream: BytesIO) -> None:
        if not 0 <= value <= UVARINT_MAX:
            raise IntegerError(f"{value} is not an unsigned 32-bit number")
        rest = value
        while rest > 0x7F:
            stream.write(ONE_BYTE[rest & 0x7F | 0x80])
            rest >>= 7
        stream.write(ONE_BYTE[rest])


class _CompactLength(WireType):
    """A length plus one as varint; zero stands for null."""

    min_size = 1

    def read(self, stream: BytesIO) -> int:
        return UVARINT.read_after(stream.read(1), stream) - 1

    def write(self, value: int, stream: BytesIO) -> None:
        UVARINT.write(value + 1, stream)


class _Uuid(WireType):
    """Sixteen bytes; Kafka has no null uuid, and uses all zeros for none."""

    min_size = 16

    def read(self, stream: BytesIO) -> UUID:
        return UUID(bytes=take(stream, 16))

    def write(self, value: UUID, stream: BytesIO) -> None:
        stream.write(value.bytes)


ONE_BYTE = [bytes([value]) for value in range(256)]

INT8, INT16, INT32, INT64 = (Fixed(layout) for layout in (">b", ">h", ">i", ">q"))
UINT16 = Fixed(">H")
BOOL = Fixed(">?")
UVARINT = _UVarint()
COMPACT_LENGTH = _CompactLength()
UUID16 = _Uuid()

Int8 = Annotated[int, INT8]
Int16 = Annotated[int, INT16]
UInt16 = Annotated[int, UINT16]
Int32 = Annotated[int, INT32]
Int64 = Annotated[int, INT64]


class _Sized(WireType):
    """A value behind its length. `length` is the construct of the length."""

    def __init__(self, length: WireType, *, nullable: bool) -> None:
        super().__init__()
        self.min_size = length.min_size
        self.length = length
        self.nullable = nullable
        self._read_length: Callable[[BytesIO], int] = length.read
        self._write_length: Callable[[int, BytesIO], None] = length.write

    def _length_error(self, length: int) -> StreamError:
        return StreamError(
            "null where a value is required" if length == NULL else f"length {length}"
        )


class Bytes(_Sized):
    """Raw bytes behind their length."""

    def read(self, stream: BytesIO) -> bytes | None:
        length = self._read_length(stream)
        if length < 0:
            if length != NULL or not self.nullable:
                raise self._length_error(length)
            return None
        data = stream.read(length)
        if len(data) != length:
            raise StreamError(f"{length} bytes wanted, {len(data)} left")
        return data

    def write(self, value: bytes | None, stream: BytesIO) -> None:
        if value is None:
            if not self.nullable:
                raise self._length_error(NULL)
            self._write_length(NULL, stream)
        else:
            self._write_length(len(value), stream)
            stream.write(value)


AS_JAVA = "groupferry-as-java"
"""The error handler with which Kafka's strings are decoded: malformed UTF-8 becomes U+FFFD, as in
Java's `new String(bytes, UTF_8)`. Kafka refuses no bytes. A string that contained some is encoded
as UTF-8, and therefore to other bytes."""

AS_JAVA_AT_ANY_LENGTH = "groupferry-as-java-at-any-length"
"""The error handler for a string that Kafka never has to write."""

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""A surrogate, which UTF-8 does not permit. Java replaces it as a whole, and Python each byte; they
agree on everything else."""


def _replace_malformed(error: UnicodeError) -> tuple[str, int]:
    """The text from the first malformed byte to the end."""
    assert isinstance(error, UnicodeDecodeError)
    rest = _SURROGATE.sub(b"\xff", error.object[error.start :]).decode(errors="replace")
    return rest, len(error.object)


def _replace_if_it_can_be_written(error: UnicodeError) -> tuple[str, int]:
    """Replace malformed bytes as Java does. Raises StringError if Kafka's own encoder would find
    the result too long."""
    assert isinstance(error, UnicodeDecodeError)
    rest, end = _replace_malformed(error)
    size = error.start + len(rest.encode())
    if size > STRING_SIZE_MAX:
        raise StringError(f"string of {size} bytes with malformed ones replaced")
    return rest, end


codecs.register_error(AS_JAVA, _replace_if_it_can_be_written)
codecs.register_error(AS_JAVA_AT_ANY_LENGTH, _replace_malformed)


class _AsReceived(str):
    """A text with malformed bytes replaced, which is passed on with the bytes that it had."""

    __slots__ = ("octets",)
    octets: bytes

    def __new__(cls, octets: bytes) -> Self:
        text = super().__new__(cls, octets.decode("utf-8", AS_JAVA_AT_ANY_LENGTH))
        text.octets = octets
        return text

    def encode(self, _encoding: str = "utf-8", _errors: str = "strict") -> bytes:
        return self.octets


class UnwritableText(_AsReceived):
    """A text that replacements make longer than any that can be written. No broker ever answers
    with it or stores it."""


def text_passed_on(data: bytes) -> str:
    """A text that is encoded to the same bytes again, whatever they are."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _AsReceived(data)


class String(_Sized):
    """UTF-8 behind its length in bytes."""

    def read(self, stream: BytesIO) -> str | None:
        length = self._read_length(stream)
        if length < 0:
            if length != NULL or not self.nullable:
                raise self._length_error(length)
            return None
        if length > STRING_SIZE_MAX:
            raise StringError(f"string of {length} bytes")
        data = stream.read(length)
        if len(data) != length:
            raise StreamError(f"{length} bytes wanted, {len(data)} left")
        return self._decode_string(data)

    def write(self, value: str | None, stream: BytesIO) -> None:
        if value is None:
            if not self.nullable:
                raise self._length_error(NULL)
            self._write_length(NULL, stream)
            return
        data = value.encode()
        if len(data) > STRING_SIZE_MAX:
            raise StringError(f"string of {len(data)} bytes")
        self._write_length(len(data), stream)
        stream.write(data)

    def _decode_string(self, data: bytes) -> str:
        try:
            return data.decode("utf-8", AS_JAVA)
        except StringError:
            return UnwritableText(data)


class StringOfAnyLength(String):
    """A string that brokers never have to write. If replacements have made it too long for that,
    what fits is written."""

    def _decode_string(self, data: bytes) -> str:
        return data.decode("utf-8", AS_JAVA_AT_ANY_LENGTH)

    def write(self, value: str | None, stream: BytesIO) -> None:
        if value is not None and len(value) > STRING_SIZE_MAX // UTF_8_SIZE_MAX:
            value = value.encode()[:STRING_SIZE_MAX].decode(errors="ignore")
        super().write(value, stream)


class PassedOnString(String):
    """A string that brokers never have to write, and the gateway only passes on. It may become too
    long to be written, and keeps its bytes."""

    def _decode_string(self, data: bytes) -> str:
        return text_passed_on(data)


PASSED_ON = object()
PassedOn = Annotated[str, PASSED_ON]
"""Declares a `PassedOnString`."""


class Array(_Sized):
    """Elements behind their count, as a tuple."""

    def __init__(self, length: WireType, element: WireType, *, nullable: bool) -> None:
        super().__init__(length, nullable=nullable)
        if not element.min_size:
            raise TypeError("elements take no bytes, so no count of them can be checked")
        self.element = element

    def read(self, stream: BytesIO) -> tuple[Any, ...] | None:
        count = self._read_length(stream)
        if count < 0:
            if count != NULL or not self.nullable:
                raise self._length_error(count)
            return None
        if count * self.element.min_size > remaining(stream):
            raise RangeError(f"{count} elements cannot fit in {remaining(stream)} bytes")
        read = self.element.read
        return tuple([read(stream) for _ in range(count)])

    def write(self, value: tuple[Any, ...] | None, stream: BytesIO) -> None:
        if value is None:
            if not self.nullable:
                raise self._length_error(NULL)
            self._write_length(NULL, stream)
            return
        self._write_length(len(value), stream)
        write = self.element.write
        for element in value:
            write(element, stream)


class NullableStruct(WireType):
    """A structure behind one byte: 1 if present, -1 if null."""

    min_size = 1

    def __init__(self, subject: WireType) -> None:
        super().__init__()
        self.subject = subject

    def read(self, stream: BytesIO) -> Any:
        present = INT8.read(stream)
        if present not in (1, NULL):
            raise IntegerError(f"a nullable structure begins with 1 or -1, not {present}")
        return None if present == NULL else self.subject.read(stream)

    def write(self, value: Any, stream: BytesIO) -> None:
        INT8.write(NULL if value is None else 1, stream)
        if value is not None:
            self.subject.write(value, stream)


class LeftEncoded(WireType):
    """A value that stays as its bytes, whose structure is checked all the same."""

    def __init__(self, subject: WireType) -> None:
        super().__init__()
        self.subject = subject
        self.min_size = subject.min_size

    def read(self, stream: BytesIO) -> bytes:
        start = stream.tell()
        self.subject.read(stream)
        end = stream.tell()
        stream.seek(start)
        return stream.read(end - start)

    def write(self, value: bytes, stream: BytesIO) -> None:
        stream.write(value)


class Encoded(bytes, Generic[_T]):
    """Declares a `LeftEncoded`, for a reader that only passes the value on in the same version."""


NO_TAGS = b"\0"


class TaggedFields(WireType):
    """The optional fields at the end of a flexible structure, as ascending (tag, bytes) pairs."""

    min_size = 1

    def read(self, stream: BytesIO) -> tuple[tuple[int, bytes], ...]:
        first = stream.read(1)
        if first == NO_TAGS:  # nearly always
            return ()
        count = UVARINT.read_after(first, stream)
        if count * 2 > remaining(stream):
            raise RangeError(f"{count} tagged fields cannot fit in {remaining(stream)} bytes")
        fields = []
        for _ in range(count):
            tag = UVARINT.read(stream)
            fields.append((tag, take(stream, UVARINT.read(stream))))
        _check_order(fields)
        return tuple(fields)

    def write(self, value: tuple[tuple[int, bytes], ...], stream: BytesIO) -> None:
        if not value:  # nearly always
            stream.write(NO_TAGS)
            return
        _check_order(value)
        UVARINT.write(len(value), stream)
        for tag, data in value:
            UVARINT.write(tag, stream)
            UVARINT.write(len(data), stream)
            stream.write(data)


TAGGED_FIELDS = TaggedFields()


def _check_order(fields: Sequence[tuple[int, bytes]]) -> None:
    """Kafka writes tags in ascending order, each once (KIP-482)."""
    if any(later[0] <= earlier[0] for earlier, later in pairwise(fields)):
        raise RangeError(f"tags are not ascending: {[tag for tag, _ in fields]}")


def parse_all(subject: WireType, data: bytes) -> Any:
    """Parse `data`, all of it."""
    stream = BytesIO(data)
    value = subject.read(stream)
    if left := remaining(stream):
        raise TerminatedError(f"{left} bytes left over")
    return value


def build_all(subject: WireType, value: Any) -> bytes:
    """Build the bytes of `value`."""
    stream = BytesIO()
    subject.write(value, stream)
    return stream.getvalue()
