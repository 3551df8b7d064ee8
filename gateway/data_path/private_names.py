"""Protects the gateway's own topics and transactional ids from clients.

In a request each private name is masked: replaced by a name of the same length that no topic can
have. The broker refuses that name and serves the rest. In the answer the original name is restored
with an authorization error. The rest of the request therefore need not be decoded. Pure, except for
looking up topic ids.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, TypeVar
from uuid import UUID

from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode

WHY = "it belongs to the gateway"

_FIRST_MASK = ord("!")  # no character from here to the last mask is legal in topic names
_NO_UUID_VERSION = 0xF << 76

_S = TypeVar("_S", bound=Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """A request with masked names, for the broker."""

    frame: bytes
    whole: bool
    """Whether it names a private transactional id, so that the whole request is refused."""


@dataclass(frozen=True, slots=True)
class _Mask:
    name: bytes
    mask: bytes
    is_topic: bool

    def prefixed(self, *, compact: bool) -> tuple[bytes, bytes]:
        """Name and mask as encoded strings; their lengths prevent a match inside a longer name."""
        size = len(self.name)
        prefix = _varint(size + 1) if compact else size.to_bytes(2, "big")
        return prefix + self.name, prefix + self.mask


class PrivateNames:
    """The private names; false if there are none."""

    def __init__(
        self,
        topics: Collection[str] = (),
        transactional_ids: Collection[str] = (),
        *,
        topic_ids: Callable[[], Sequence[UUID]] = tuple,
    ) -> None:
        """`topic_ids` returns the current ids of the topics."""
        named = [*((name, True) for name in topics), *((name, False) for name in transactional_ids)]
        self._masks = [
            _Mask(name.encode(), chr(_FIRST_MASK + place).encode() + name.encode()[1:], is_topic)
            for place, (name, is_topic) in enumerate(named)
        ]
        self._topic_ids = topic_ids

    def __bool__(self) -> bool:
        return bool(self._masks)

    def may_be_in(self, frame: bytes) -> bool:
        """A quick check whether a request may contain a private name."""
        return any(mask.name in frame for mask in chain(self._masks, self._id_masks()))

    def hide(self, frame: bytes, *, compact: bool) -> Hidden | None:
        """The request with masked names, None if it contains none. `compact`: whether its strings
        are in the compact encoding."""
        if not self._masks:
            return None
        shown, whole = frame, False
        for mask in self._masks:
            name, instead = mask.prefixed(compact=compact)
            if name in shown:
                shown = shown.replace(name, instead)
                whole |= not mask.is_topic
        for mask in self._id_masks():
            shown = shown.replace(mask.name, mask.mask)
        return None if shown == frame else Hidden(frame=shown, whole=whole)

    def mask_of(self, topic: bytes) -> bytes | None:
        """The mask for a topic's name or id bytes, None if the topic is not private."""
        for mask in chain(self._masks, self._id_masks()):
            if mask.is_topic and mask.name == topic:
                return mask.mask
        return None

    def refused(self, answer: _S, *, whole: bool = False) -> _S:
        """The broker's answer to a masked request, with the original names and errors."""
        if whole:
            return _with_error(answer, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        known = {mask.mask.decode(): mask.name.decode() for mask in self._masks}
        ids = {UUID(bytes=mask.mask): UUID(bytes=mask.name) for mask in self._id_masks()}
        return _unmasked(answer, known | ids)

    def _id_masks(self) -> Iterator[_Mask]:
        for topic_id in self._topic_ids():
            mask = UUID(int=topic_id.int | _NO_UUID_VERSION)
            yield _Mask(topic_id.bytes, mask.bytes, is_topic=True)


NOTHING_PRIVATE = PrivateNames()


def _unmasked(message: _S, known: dict[Any, Any]) -> _S:
    is_private = False
    changes: dict[str, Any] = {}
    for name, value in _parts_of(message):
        if isinstance(value, str | UUID) and value in known:
            changes[name] = known[value]
            is_private = True
        elif isinstance(value, tuple):
            changes[name] = tuple(
                _unmasked(each, known) if isinstance(each, Struct) else each for each in value
            )
    made = replace(message, **changes)
    return _with_error(made, ErrorCode.TOPIC_AUTHORIZATION_FAILED) if is_private else made


def _with_error(message: _S, code: int) -> _S:
    changes: dict[str, Any] = {}
    for name, value in _parts_of(message):
        if name.endswith("error_code"):
            changes[name] = code
        elif name == "error_message":
            changes[name] = WHY
        elif isinstance(value, tuple):
            changes[name] = tuple(
                _with_error(each, code) if isinstance(each, Struct) else each for each in value
            )
    return replace(message, **changes)


def _parts_of(message: Struct) -> Iterator[tuple[str, Any]]:
    for part in fields(message):
        yield part.name, getattr(message, part.name)


def _varint(value: int) -> bytes:
    low, high = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(high) if high else bytes([low])
