"""Reads the acks of a Produce request from its first bytes. With acks=0 no answer comes."""

import struct

from gateway.data_path.errors import BadFrame
from kafka_codecs.apis import ApiKey

FIRST_TRANSACTIONAL_VERSION = 3
"""Before it, a request begins with its acks."""
TAGS_MAX = 256
"""Tagged fields in one place; they are read again whenever more bytes arrive."""

_SIZE_AND_HEADER_START = 12  # size, api key, api version, correlation id
_INT16 = struct.Struct(">h")
_VARINT_BYTES_MAX = 5
_UINT32_MAX = 2**32 - 1


def acks_of(frame: memoryview, api_version: int) -> int | None:
    """The acks in a frame that starts with its size; None if more of the frame is needed.

    Raises BadFrame for an impossible length.
    """
    try:
        return int(_INT16.unpack_from(frame, acks_at(frame, api_version))[0])
    except (struct.error, IndexError):
        return None


def acks_at(frame: memoryview, api_version: int) -> int:
    """The offset of the acks. Raises BadFrame, and struct.error or IndexError if bytes are
    missing."""
    at = after_string(frame, _SIZE_AND_HEADER_START)  # client id, never compact
    if api_version < FIRST_TRANSACTIONAL_VERSION:
        return at
    if ApiKey.PRODUCE.is_flexible(api_version):
        return after_compact_string(frame, after_tagged_fields(frame, at))
    return after_string(frame, at)


def after_string(frame: memoryview, at: int) -> int:
    """The end of the nullable string that begins at `at`."""
    (length,) = _INT16.unpack_from(frame, at)
    if length < -1:
        raise BadFrame(f"a string of length {length}")
    return at + _INT16.size + max(int(length), 0)


def after_compact_string(frame: memoryview, at: int) -> int:
    """The end of the nullable compact string that begins at `at`."""
    length_and_one, at = varint(frame, at)
    return at + max(length_and_one - 1, 0)


def after_tagged_fields(frame: memoryview, at: int) -> int:
    """The end of the tagged fields that begin at `at`."""
    count, at = varint(frame, at)
    if count > TAGS_MAX:
        raise BadFrame(f"{count} tagged fields")
    for _ in range(count):
        _, at = varint(frame, at)
        size, at = varint(frame, at)
        at += size
    return at


def varint(frame: memoryview, at: int) -> tuple[int, int]:
    """An unsigned varint, and its end."""
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        byte = frame[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80 and value <= _UINT32_MAX:
            return value, at + place + 1
    raise BadFrame("a varint above 32 bits")
