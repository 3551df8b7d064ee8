"""Protects the gateway's own topics and transactional ids from clients.

In a request each private name is masked: replaced by one that the broker refuses, so that it
serves the rest. In the answer the original name is restored, with an authorization error. Lists do
not show private names: they are treated as topics that the client may not describe.

All of this is decided on decoded values, and what the broker gets is encoded from them, because
another parser may read the same bytes otherwise: Kafka accepts overlong varints, for example.
Bytes prove only an absence: in every encoding, the bytes of a name stand together. Pure, except for
looking up topic ids.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar
from uuid import UUID

from gateway.data_path.entities import entity_fields, is_topic, naming_parts
from kafka_codecs.declaration import Entity, Struct
from kafka_codecs.error_codes import ErrorCode

REASON = "it belongs to the gateway"

_FIRST_MASK = ord("!")  # no character from here to the last mask is legal in topic names
_NO_UUID_VERSION = 0xF << 76
_NO_TRANSACTIONAL_ID = ""  # brokers refuse it, and take any other for a new one

_S = TypeVar("_S", bound=Struct)
_Value = str | UUID


@dataclass(slots=True, kw_only=True)
class Masks:
    """The masks in one request; false if there are none."""

    names: dict[_Value, _Value] = field(default_factory=dict)
    """The original names and ids, by their masks."""
    refuses_all: bool = False
    """Whether a transactional id is private, so that the whole request is refused."""

    def __bool__(self) -> bool:
        return bool(self.names)


NOTHING_MASKED = Masks()


class PrivateNames:
    """The private names; false if there are none."""

    def __init__(
        self,
        topics: Collection[str] = (),
        transactional_ids: Collection[str] = (),
        *,
        topic_ids: Callable[[], Collection[UUID]] = tuple,
    ) -> None:
        """`topic_ids` returns the current ids of the topics."""
        self._topic_masks: dict[_Value, _Value] = {
            name: chr(_FIRST_MASK + place) + name[1:] for place, name in enumerate(topics)
        }
        self._topic_ids = topic_ids
        self._transactional_ids = frozenset(transactional_ids)
        self._bytes = [name.encode() for name in (*topics, *transactional_ids)]

    def __bool__(self) -> bool:
        return bool(self._bytes)

    def may_be_in(self, frame: bytes) -> bool:
        """Whether a request may contain a private name. False is certain."""
        return any(name in frame for name in self._bytes) or any(
            topic_id.bytes in frame for topic_id in self._topic_ids()
        )

    def has_topic(self, name: str) -> bool:
        """Whether a topic is private."""
        return name in self._topic_masks

    def has_topic_id(self, topic_id: UUID) -> bool:
        """Whether a topic with this id is private."""
        return topic_id in self._topic_ids()

    def mask_bytes(self, name: bytes, entity: Entity, masks: Masks) -> bytes | None:
        """The mask for a name or id in its encoding, which has the same length; it is added to
        `masks`. None if the name is not private."""
        private = self._masks()
        if entity is Entity.TRANSACTIONAL_ID:
            private = {value: chr(_FIRST_MASK) + value[1:] for value in self._transactional_ids}
        for value, mask in private.items():
            is_id = isinstance(value, UUID)
            if is_id == (entity is Entity.TOPIC_ID) and _bytes_of(value) == name:
                masks.names[mask] = value
                masks.refuses_all |= entity is Entity.TRANSACTIONAL_ID
                return _bytes_of(mask)
        return None

    def mask(self, request: _S) -> tuple[_S, Masks]:
        """The request with masked names, for the broker."""
        topic_masks, masks = self._masks(), Masks()

        def mask_message(message: Any) -> Any:
            changes: dict[str, Any] = {}
            for name, entity in entity_fields(message):
                value = getattr(message, name)
                if entity is None:
                    changes[name] = _map_value(value, mask_message)
                elif entity is Entity.TRANSACTIONAL_ID:
                    changes[name] = _map_value(value, mask_transactional_id)
                elif is_topic(entity, message):
                    changes[name] = _map_value(value, mask_topic)
            return replace(message, **changes)

        def mask_topic(value: _Value) -> _Value:
            mask = topic_masks.get(value)
            if mask is None:
                return value
            masks.names[mask] = value
            return mask

        def mask_transactional_id(value: str) -> str:
            if value not in self._transactional_ids:
                return value
            masks.names[_NO_TRANSACTIONAL_ID] = value
            masks.refuses_all = True
            return _NO_TRANSACTIONAL_ID

        return mask_message(request), masks

    def without_private(self, answer: _S) -> _S:
        """The answer, whose lists leave out everything private."""
        changes: dict[str, Any] = {}
        for name in naming_parts(answer):
            value = getattr(answer, name)
            if isinstance(value, tuple):
                shown = [entry for entry in value if not self._is_private(entry)]
                if shown and naming_parts(shown[0]):
                    shown = [self.without_private(entry) for entry in shown]
                changes[name] = tuple(shown)
            elif value is not None:
                changes[name] = self.without_private(value)
        return replace(answer, **changes) if changes else answer

    def _is_private(self, entry: Struct) -> bool:
        for name, entity in entity_fields(entry):
            if entity is None or entity is Entity.TOPIC_ID:
                continue  # lists have names next to ids
            value = getattr(entry, name)
            if entity is Entity.TRANSACTIONAL_ID:
                if value in self._transactional_ids:
                    return True
            elif value in self._topic_masks and is_topic(entity, entry):
                return True
        return False

    def _masks(self) -> dict[_Value, _Value]:
        masks: dict[_Value, _Value] = dict(self._topic_masks)
        for topic_id in self._topic_ids():
            masks[topic_id] = UUID(int=topic_id.int | _NO_UUID_VERSION)
        return masks


NOTHING_PRIVATE = PrivateNames()


def restore_names(answer: _S, masks: Masks) -> _S:
    """The broker's answer to a masked request, with the original names and their errors."""
    answer = _with_names(answer, masks.names)
    if masks.refuses_all:
        return _with_error(answer, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return answer


def _with_names(message: _S, names: Mapping[_Value, _Value]) -> _S:
    is_private = False
    changes: dict[str, Any] = {}
    for name, entity in entity_fields(message):
        value = getattr(message, name)
        if entity is None:
            changes[name] = _map_value(value, lambda entry: _with_names(entry, names))
        elif value in names:
            changes[name] = names[value]
            is_private = True
    made = replace(message, **changes)
    return _with_error(made, ErrorCode.TOPIC_AUTHORIZATION_FAILED) if is_private else made


def _with_error(message: _S, code: int) -> _S:
    changes: dict[str, Any] = {}
    for part in fields(message):
        name, value = part.name, getattr(message, part.name)
        if name.endswith("error_code"):
            changes[name] = code
        elif name == "error_message":
            changes[name] = REASON
        elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
            changes[name] = tuple(_with_error(entry, code) for entry in value)
    return replace(message, **changes)


def _map_value(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value changed, or each entry of a list; null stays null."""
    if isinstance(value, tuple):
        return tuple(change(entry) for entry in value)
    return None if value is None else change(value)


def _bytes_of(value: _Value) -> bytes:
    return value.bytes if isinstance(value, UUID) else value.encode()
