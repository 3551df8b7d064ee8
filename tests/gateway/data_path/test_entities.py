"""The fields that name topics and transactional ids are those of Kafka's own schemas."""

import importlib.util
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import get_args, get_type_hints

import pytest
from kio.schema import types as kio_types

from gateway.data_path.api_table import API_TABLE
from gateway.data_path.entities import entity_fields
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.declaration import Entity, Struct
from tests.gateway.data_path.kafka_apis import NAMES_PASS
from tests.support.codecs import FIRST_IN_KAFKA_4, NOT_IN_KAFKA, sample

_NOT_DECLARED_FIELDS = {
    ApiKey.DESCRIBE_QUORUM: {"topic_name"},  # the controllers' log
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {"topic_name"},  # a position in the alphabet
    ApiKey.TXN_OFFSET_COMMIT: {"name"},  # as above
}


def kafkas_fields(key: ApiKey, version: int) -> Iterator[str]:
    """The fields of a request that name topics or transactional ids, in Kafka's own schemas."""
    api = f"kio.schema.{key.name.lower()}"
    package = f"{api}.v{version}"
    if not all(map(importlib.util.find_spec, (api, package))):
        return  # newer than kio
    for kind in vars(importlib.import_module(f"{package}.request")).values():
        if is_dataclass(kind) and isinstance(kind, type):
            for name, hint in get_type_hints(kind).items():
                parts = [hint, *get_args(hint)]
                parts += [part for nested in parts for part in get_args(nested)]
                if {*parts} & {kio_types.TopicName, kio_types.TransactionalId}:
                    yield name


def our_fields(message: Struct) -> Iterator[str]:
    """The names of the fields with entities, as our codecs declare them."""
    for name, entity in entity_fields(message):
        if entity is None:
            value = getattr(message, name)
            for part in (value,) if isinstance(value, Struct) else value or ():
                yield from our_fields(part)
        elif entity in {Entity.TOPIC, Entity.TRANSACTIONAL_ID}:
            yield name


@pytest.mark.parametrize("key", [key for key in API_TABLE if key not in NOT_IN_KAFKA])
def test_every_name_in_kafkas_schemas_is_declared(key: ApiKey) -> None:
    """No api that joins the table, and no field, can be forgotten."""
    handled = API_TABLE[key]
    ours: set[str] = set()
    theirs: set[str] = set()
    for version in range(FIRST_IN_KAFKA_4.get(key, 0), handled.max_version + 1):
        theirs |= {*kafkas_fields(key, version)} - _NOT_DECLARED_FIELDS.get(key, set())
        if key in APIS and APIS[key].request:
            ours |= {*our_fields(sample(APIS[key].request, version))}
    if key in NAMES_PASS:
        assert not ours
    elif key is not ApiKey.PRODUCE:  # its fields are walked: see test_request_heads.py
        assert ours == theirs, "declare these fields in the api's codec with wire(entity=...)"
