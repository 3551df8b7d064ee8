"""Finds the fields of a message that name topics and transactional ids."""

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any, get_args, get_type_hints

from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.declaration import Entity, Struct, rules_of
from kafka_codecs.describe_configs import ConfigResourceType


def entity_fields(message: Struct) -> tuple[tuple[str, Entity | None], ...]:
    """The fields of a message that name something, and, with None, those whose structures do."""
    kind: Any = type(message)  # mypy considers a class that defines __hash__ unhashable
    return _entity_fields(kind)


@cache
def _entity_fields(kind: Any) -> tuple[tuple[str, Entity | None], ...]:
    hints = get_type_hints(kind)
    named = []
    for declared in fields(kind):
        entity = rules_of(declared).entity
        if entity or any(_entity_fields(part) for part in _structures(hints[declared.name])):
            named.append((declared.name, entity))
    return tuple(named)


def naming_parts(message: Struct) -> tuple[str, ...]:
    """The fields of a message whose structures name something."""
    kind: Any = type(message)  # as above
    return _naming_parts(kind)


@cache
def _naming_parts(kind: Any) -> tuple[str, ...]:
    return tuple(name for name, entity in _entity_fields(kind) if entity is None)


def is_topic(entity: Entity, owner: Struct) -> bool:
    """Whether an entity of this structure is a topic."""
    if entity is Entity.CONFIG_RESOURCE:
        return bool(owner.resource_type == ConfigResourceType.TOPIC)  # type: ignore[attr-defined]
    return entity in {Entity.TOPIC, Entity.TOPIC_ID}


def _structures(hint: Any) -> Iterator[Any]:
    if isinstance(hint, type) and issubclass(hint, Struct):
        yield hint
    for part in get_args(hint):
        yield from _structures(part)


_REQUESTS: dict[ApiKey, Any] = {key: api.request for key, api in APIS.items() if api.request}

NAMING_APIS = frozenset(
    {ApiKey.PRODUCE, *(key for key, request in _REQUESTS.items() if _entity_fields(request))}
)
"""The apis whose requests may name topics or transactional ids, except in the offsets of a group.
Produce is not decoded: see `request_heads.py`."""
