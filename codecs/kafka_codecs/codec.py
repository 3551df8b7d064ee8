"""The package's entry points, `decode` and `encode`.

They convert the errors of construct, struct and UTF-8 into `WireError`.
"""

from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any, TypeVar

from kafka_codecs.assembly import MALFORMED, Structure, message_codec
from kafka_codecs.declaration import Struct
from kafka_codecs.errors import WireError
from kafka_codecs.straight import GAVE_UP, StraightReader, straight_reader, straight_skipper
from kafka_codecs.straight_writer import StraightWriter, straight_writer

_M = TypeVar("_M", bound=Struct)


def decode(message_type: type[_M], data: bytes, version: int, *, trailing_ok: bool = False) -> _M:
    """Decode the body of a message: the bytes after its header.

    Raises `WireError` if the message has no such version, if the bytes are malformed, or if bytes
    are left over and `trailing_ok` is false.
    """
    hashable: Any = message_type  # mypy considers a class that defines __hash__ unhashable
    value: _M
    try:
        value, end = _reader(hashable, version)(data)
    except GAVE_UP:
        pass
    else:
        if end == len(data) or (trailing_ok and end < len(data)):
            return value
    codec: Structure[_M] = message_codec(hashable, version)
    stream = BytesIO(data)
    try:
        value = codec.read(stream)
    except MALFORMED as error:
        raise _wire_error(message_type, version, error) from None
    if not trailing_ok and stream.tell() != len(data):
        left = len(data) - stream.tell()
        raise WireError(f"{message_type.__name__} v{version}: {left} bytes left over")
    return value


@cache
def _reader(message_type: Any, version: int) -> StraightReader:
    return straight_reader(message_codec(message_type, version))


def encode(message: Struct, version: int) -> bytes:
    """Encode a message as `version`.

    Raises `WireError` if the message has no such version, or a value that it cannot carry.
    """
    hashable: Any = type(message)
    try:
        return _writer(hashable, version)(message)
    except GAVE_UP:
        pass
    codec = message_codec(hashable, version)
    stream = BytesIO()
    try:
        codec.write(message, stream)
    except MALFORMED as error:
        raise _wire_error(type(message), version, error) from None
    return stream.getvalue()


def encode_up_to(message: Struct, version: int, field: str) -> bytes:
    """Encode the fields of a message before this one. Raises `WireError` as `encode` does."""
    hashable: Any = type(message)
    try:
        return _beginning(hashable, version, field)[1](message)
    except GAVE_UP:
        name = type(message).__name__
        raise WireError(f"{name} v{version}: cannot write what precedes {field}") from None


def encoded_from(message_type: type[Struct], version: int, data: bytes, field: str) -> bytes:
    """The encoding of this field of a message and of all behind it. Raises `WireError`."""
    hashable: Any = message_type
    try:
        return data[_beginning(hashable, version, field)[0](data) :]
    except GAVE_UP:
        name = message_type.__name__
        raise WireError(f"{name} v{version}: cannot find {field}") from None


@cache
def _writer(message_type: Any, version: int) -> StraightWriter:
    return straight_writer(message_codec(message_type, version))


@cache
def _beginning(
    message_type: Any, version: int, up_to: str
) -> tuple[Callable[[bytes], int], StraightWriter]:
    """Finds where the field begins, and writes those before it."""
    codec = message_codec(message_type, version)
    return straight_skipper(codec, up_to), straight_writer(codec, up_to)


def _wire_error(message_type: type[Struct], version: int, error: Exception) -> WireError:
    """Structures add the name of the failing field to the error as a note, innermost first."""
    field = ".".join(reversed(getattr(error, "__notes__", [])))
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return WireError(f"{message_type.__name__} v{version}, {field}: {reason}")
