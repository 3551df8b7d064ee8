"""Walks the names in a Produce or Fetch request while it is relayed, without holding the request.

A private name is masked in place with one of the same length; the broker refuses it and serves the
others. Lengths are read exactly as Kafka's parser reads them, and what it would refuse is refused.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable

from gateway.data_path.api_table import TOPIC_IDS_SINCE
from gateway.data_path.errors import BadFrame
from gateway.data_path.private_names import Masks
from gateway.data_path.produce_acks import after_string, after_tagged_fields, varint
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Entity

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_HEADER_START_BYTES = 12  # size, api key, api version, correlation id
_TOPIC_ID_BYTES = 16
_ACKS_AND_TIMEOUT_BYTES = 6
_NAME_BYTES_MAX = 0x7FFF

MaskBytes = Callable[[bytes, Entity, Masks], bytes | None]
"""Returns the mask for the bytes of a name, and adds it to the masks; None if it is not private."""


class RequestHead(ABC):
    """The head of one request, parsed piece by piece. Call `advance` until `is_done`."""

    api_key: ApiKey

    def __init__(self, api_version: int, mask_bytes: MaskBytes, entries_max: int) -> None:
        """`entries_max` limits topics and partitions together; each costs time, however few its
        bytes."""
        self.masks = Masks()
        """What has been masked so far."""
        self._version = api_version
        self._flexible = self.api_key.is_flexible(api_version)
        self._mask_bytes = mask_bytes
        self._entries_left = entries_max
        self._entries_max = entries_max
        self._topics = self._partitions = 0
        self._step: Callable[[memoryview, int], int] | None = self._start

    @property
    def is_done(self) -> bool:
        """Whether all names have been seen. The rest of the request needs no parsing."""
        return self._step is None

    def advance(self, rest: memoryview) -> int:
        """Parse as far as possible, masking private names.

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

    @abstractmethod
    def _start(self, rest: memoryview, at: int) -> int:
        """Parse what precedes the topics, and their count."""

    @abstractmethod
    def _partition(self, rest: memoryview, at: int) -> int:
        """Parse a partition up to its tagged fields."""

    def _topics_end(self) -> Callable[[memoryview, int], int] | None:
        """What comes after the topics, None if there are no more names."""
        return None

    def _after_header(self, rest: memoryview, at: int) -> int:
        at = after_string(rest, at + _HEADER_START_BYTES)  # the client id is never compact
        return after_tagged_fields(rest, at) if self._flexible else at

    def _topic(self, rest: memoryview, at: int) -> int:
        begin, end, entity = self._name(rest, at)
        partitions, after = self._count(rest, end)
        self._mask(rest, begin, end, entity)
        self._topics -= 1
        self._partitions = partitions
        self._step = self._partition if partitions else self._topic_end
        return after

    def _partition_end(self, rest: memoryview, at: int) -> int:
        if self._flexible:
            at = after_tagged_fields(rest, at)
        self._step = self._partition if self._partitions else self._topic_end
        return at

    def _topic_end(self, rest: memoryview, at: int) -> int:
        if self._flexible:
            at = after_tagged_fields(rest, at)
        self._step = self._topic if self._topics else self._topics_end()
        return at

    def _name(self, rest: memoryview, at: int) -> tuple[int, int, Entity]:
        """The begin and end of a topic's name or id."""
        if self._version >= TOPIC_IDS_SINCE[self.api_key]:
            return at, at + _TOPIC_ID_BYTES, Entity.TOPIC_ID
        size, at = self._string_size(rest, at)
        if size < 0:
            raise BadFrame("a topic without a name")
        return at, at + size, Entity.TOPIC

    def _string_size(self, rest: memoryview, at: int) -> tuple[int, int]:
        """The size of a string, -1 for null, and where it begins."""
        if self._flexible:
            size, at = varint(rest, at)
            size -= 1
        else:
            (size,), at = _INT16.unpack_from(rest, at), at + _INT16.size
        if not -1 <= size <= _NAME_BYTES_MAX:
            raise BadFrame(f"a name of {size} bytes")
        return size, at

    def _mask(self, rest: memoryview, begin: int, end: int, entity: Entity) -> None:
        mask = self._mask_bytes(bytes(rest[begin:end]), entity, self.masks)
        if mask is not None:
            rest[begin:end] = mask

    def _count(self, rest: memoryview, at: int) -> tuple[int, int]:
        if self._flexible:
            count, at = varint(rest, at)
            count -= 1
        else:
            (count,), at = _INT32.unpack_from(rest, at), at + _INT32.size
        self._entries_left -= max(count, 0)
        if self._entries_left < 0:
            name = self.api_key.name
            raise BadFrame(f"a {name} request with more than {self._entries_max} entries")
        return max(count, 0), at


class ProduceHead(RequestHead):
    """Names the transactional id and the topics; the records lie between them."""

    api_key = ApiKey.PRODUCE

    def _start(self, rest: memoryview, at: int) -> int:
        begin = end = self._after_header(rest, at)
        if self._version >= 3:
            size, begin = self._string_size(rest, begin)
            end = begin + max(size, 0)
        self._topics, at = self._count(rest, end + _ACKS_AND_TIMEOUT_BYTES)
        self._mask(rest, begin, end, Entity.TRANSACTIONAL_ID)
        self._step = self._topic if self._topics else None
        return at

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
        # No name follows the last records.
        self._step = self._partition_end if self._partitions or self._topics else None
        return at + max(size, 0)


class FetchHead(RequestHead):
    """Names the topics to fetch, and then those that leave the session."""

    api_key = ApiKey.FETCH

    def __init__(self, api_version: int, mask_bytes: MaskBytes, entries_max: int) -> None:
        super().__init__(api_version, mask_bytes, entries_max)
        since = api_version.__ge__
        replica_id, limits, session = 4 * (not since(15)), 8 + 4 * since(3), 8 * since(7)
        self._bytes_before_topics = replica_id + limits + since(4) + session
        epochs, log_start_offset = 4 * since(9) + 4 * since(12), 8 * since(5)
        self._partition_bytes = 16 + epochs + log_start_offset

    def _start(self, rest: memoryview, at: int) -> int:
        at = self._after_header(rest, at) + self._bytes_before_topics
        self._topics, at = self._count(rest, at)
        self._step = self._topic if self._topics else self._topics_end()
        return at

    def _partition(self, rest: memoryview, at: int) -> int:  # noqa: ARG002  it has a fixed size
        self._partitions -= 1
        self._step = self._partition_end
        return at + self._partition_bytes

    def _topics_end(self) -> Callable[[memoryview, int], int] | None:
        return self._forgotten if self._version >= 7 else None

    def _forgotten(self, rest: memoryview, at: int) -> int:
        self._topics, at = self._count(rest, at)
        self._step = self._forgotten_topic if self._topics else None
        return at

    def _forgotten_topic(self, rest: memoryview, at: int) -> int:
        begin, end, entity = self._name(rest, at)
        partitions, at = self._count(rest, end)
        self._mask(rest, begin, end, entity)
        self._topics -= 1
        self._step = self._forgotten_topic_end
        return at + partitions * _INT32.size

    def _forgotten_topic_end(self, rest: memoryview, at: int) -> int:
        if self._flexible:
            at = after_tagged_fields(rest, at)
        self._step = self._forgotten_topic if self._topics else None
        return at
