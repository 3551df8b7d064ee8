"""Finds the topics of a Produce request while it is relayed, without holding its records.

A private topic is masked in place with a name that no topic can have; the broker refuses it and
stores the others.
"""

import struct
from collections.abc import Callable

from gateway.data_path.errors import BadFrame
from gateway.data_path.produce_acks import acks_at, after_tagged_fields, varint
from kafka_codecs.apis import ApiKey

FIRST_VERSION_WITH_TOPIC_IDS = 13

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_ACKS_AND_TIMEOUT_BYTES = 6
_TOPIC_ID_BYTES = 16
_NAME_BYTES_MAX = 0x7FFF

MaskOf = Callable[[bytes], bytes | None]
"""The mask for a topic's name or id bytes; None if the topic is not private."""


class ProduceTopics:
    """Parses one request piece by piece. Call `advance` until `is_done`."""

    def __init__(self, api_version: int, mask_of: MaskOf, *, entries_max: int) -> None:
        """`entries_max` limits topics and partitions together; each costs time, however few its
        bytes."""
        self._version = api_version
        self._flexible = ApiKey.PRODUCE.is_flexible(api_version)
        self._mask_of = mask_of
        self._entries_left = entries_max
        self._entries_max = entries_max
        self._topics = self._partitions = 0
        self._step: Callable[[memoryview, int], int] | None = self._start
        self.masked = False
        """Whether a topic was masked."""

    @property
    def is_done(self) -> bool:
        """Whether all topics have been seen. The rest of the request needs no parsing."""
        return self._step is None

    def advance(self, rest: memoryview) -> int:
        """Parse as far as possible, masking private topics.

        Returns how many bytes may be relayed, which may exceed `rest` by the remainder of a
        partition's records. 0 means that more bytes are needed first. Raises BadFrame.
        """
        at = 0
        while self._step is not None and at <= len(rest):
            try:
                at = self._step(rest, at)
            except (struct.error, IndexError):
                break
        return at

    def _start(self, rest: memoryview, at: int) -> int:
        at = acks_at(rest, self._version) + _ACKS_AND_TIMEOUT_BYTES
        self._topics, at = self._count(rest, at)
        self._step = self._topic if self._topics else None
        return at

    def _topic(self, rest: memoryview, at: int) -> int:
        if self._version >= FIRST_VERSION_WITH_TOPIC_IDS:
            size = _TOPIC_ID_BYTES
        elif self._flexible:
            size, at = varint(rest, at)
            size -= 1
        else:
            (size,), at = _INT16.unpack_from(rest, at), at + _INT16.size
        if not 0 <= size <= _NAME_BYTES_MAX:
            raise BadFrame(f"a topic name of {size} bytes")
        partitions, after = self._count(rest, at + size)
        mask = self._mask_of(bytes(rest[at : at + size]))
        if mask is not None:
            rest[at : at + size] = mask
            self.masked = True
        self._topics -= 1
        self._partitions = partitions
        self._step = self._partition if partitions else self._topic_end
        return after

    def _partition(self, rest: memoryview, at: int) -> int:
        at += _INT32.size  # the partition index
        if self._flexible:
            size, at = varint(rest, at)
            size -= 1
        else:
            (size,), at = _INT32.unpack_from(rest, at), at + _INT32.size
        if size < -1:
            raise BadFrame(f"records of {size} bytes")
        self._partitions -= 1
        self._step = self._partition_end
        return at + max(size, 0)

    def _partition_end(self, rest: memoryview, at: int) -> int:
        if self._flexible:
            at = after_tagged_fields(rest, at)
        self._step = self._partition if self._partitions else self._topic_end
        return at

    def _topic_end(self, rest: memoryview, at: int) -> int:
        if self._flexible:
            at = after_tagged_fields(rest, at)
        self._step = self._topic if self._topics else None
        return at

    def _count(self, rest: memoryview, at: int) -> tuple[int, int]:
        if self._flexible:
            count, at = varint(rest, at)
            count -= 1
        else:
            (count,), at = _INT32.unpack_from(rest, at), at + _INT32.size
        self._entries_left -= max(count, 0)
        if self._entries_left < 0:
            raise BadFrame(f"a Produce request with more than {self._entries_max} entries")
        return max(count, 0), at
