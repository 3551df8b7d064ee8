"""How a coordinator reads a member's subscription: a port of what Kafka 3.9 to 4.3 do.

Kafka's generated reader throws a BufferUnderflowException where a number is cut off, which the
coordinator catches: the group has no known subscriptions. For a length that is not possible it
throws a bare RuntimeException, which nothing catches, so the JoinGroup is never answered. Older
releases, such as 2.8, survive some of these lengths.
"""

import struct
from enum import Enum, auto


class Reading(Enum):
    """What a coordinator makes of the bytes."""

    SUBSCRIPTION = auto()
    """The coordinator knows the member's topics."""
    UNREADABLE = auto()
    """The coordinator does without the topics."""
    CRASH = auto()
    """The coordinator throws, and the group hangs."""


class _CrashError(Exception):
    pass


def read(data: bytes) -> Reading:
    """Read the bytes as a subscription of version 0, whatever version they begin with."""
    try:
        _read(_Buffer(data))
    except struct.error:
        return Reading.UNREADABLE
    except _CrashError:
        return Reading.CRASH
    return Reading.SUBSCRIPTION


def _read(buffer: "_Buffer") -> None:
    buffer.number(">h")  # the version, which does not matter
    topics = buffer.number(">i")
    if not 0 <= topics <= buffer.rest:  # an element has at least one byte
        raise _CrashError
    for _ in range(topics):
        buffer.skip(buffer.number(">h"))
    if (user_data := buffer.number(">i")) >= 0:
        buffer.skip(user_data)


class _Buffer:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def rest(self) -> int:
        return len(self._data) - self._at

    def number(self, layout: str) -> int:
        (number,) = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return int(number)

    def skip(self, length: int) -> None:
        """Raises _CrashError for a length that is not possible, also that of null."""
        if not 0 <= length <= self.rest:
            raise _CrashError
        self._at += length
