"""The acks of a Produce request, read from its first bytes: acks=0 means that no answer comes.

Knows the layout of the request up to that field and no further.
"""

import struct

from gateway.data_path.errors import BadFrame
from kafka_codecs.apis import ApiKey

_SIZE_AND_HEADER_START = 12  # size, api key, api version, correlation id
_INT16 = struct.Struct(">h")
_VARINT_BYTES_MAX = 5


def acks_of(frame: memoryview, api_version: int) -> int | None:
    """The acks in a frame that starts with its size; None if more of the frame is needed.

    Raises BadFrame for lengths that cannot be.
    """
    flexible = ApiKey.PRODUCE.is_flexible(api_version)
    try:
        at = _after_string(frame, _SIZE_AND_HEADER_START)  # client id, never compact
        if flexible:
            at = _after_compact_string(frame, _after_tagged_fields(frame, at))
        else:
            at = _after_string(frame, at)
        return int(_INT16.unpack_from(frame, at)[0])
    except (struct.error, IndexError):
        return None


def _after_string(frame: memoryview, at: int) -> int:
    (length,) = _INT16.unpack_from(frame, at)
    if length < -1:
        raise BadFrame(f"a string of length {length}")
    return at + _INT16.size + max(int(length), 0)


def _after_compact_string(frame: memoryview, at: int) -> int:
    length_and_one, at = _varint(frame, at)
    return at + max(length_and_one - 1, 0)


def _after_tagged_fields(frame: memoryview, at: int) -> int:
    count, at = _varint(frame, at)
    for _ in range(count):
        _, at = _varint(frame, at)
        size, at = _varint(frame, at)
        at += size
    return at


def _varint(frame: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        byte = frame[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise BadFrame("a varint of more than five bytes")
