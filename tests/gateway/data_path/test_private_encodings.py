"""Whatever api, version and encoding a client uses, the broker gets no private name."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest

from gateway.data_path.api_table import API_TABLE
from gateway.data_path.entities import NAMING_APIS, entity_fields
from gateway.data_path.private_names import PrivateNames
from kafka_codecs import decode, encode
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.declaration import Entity, Struct
from kafka_codecs.describe_configs import ConfigResourceType
from kafka_codecs.fetch import FetchRequest
from kafka_codecs.header import RequestHeader
from tests.gateway.data_path.running_data_path import running_gateway
from tests.support.codecs import NOT_IN_KAFKA, overlong_encoding, sample
from tests.support.fake_broker import FakeBroker, answer, running_fake_broker
from tests.support.wire import Wire, open_wire, produce_frame, request_frame

STATE, WRITER = "groupferry-state", "groupferry-state-0"
STATE_ID = UUID(int=0x1234_5678_9ABC_4DEF_8123_4567_89AB_CDEF)
PRIVATE = PrivateNames((STATE,), (WRITER,), topic_ids=lambda: (STATE_ID,))
NAMES: dict[Entity, Any] = {
    Entity.TOPIC: STATE,
    Entity.TOPIC_ID: STATE_ID,
    Entity.TRANSACTIONAL_ID: WRITER,
    Entity.CONFIG_RESOURCE: STATE,
}
REQUESTS = [
    (key, version)
    for key in sorted(NAMING_APIS - {ApiKey.PRODUCE})
    for version in APIS[key].versions
    if version <= API_TABLE[key].max_version
]


def with_private_names(message: Struct, entities: set[Entity]) -> Struct:
    """The message with private names in all fields that name one of these entities."""
    changes: dict[str, Any] = {}
    if hasattr(message, "resource_type"):
        changes["resource_type"] = ConfigResourceType.TOPIC
    for name, entity in entity_fields(message):
        value = getattr(message, name)
        if isinstance(value, Struct):
            changes[name] = with_private_names(value, entities)
        elif entity is None:
            parts = tuple(with_private_names(part, entities) for part in value)
            changes[name] = parts
        elif entity in entities:
            private = NAMES[entity]
            changes[name] = (private,) * len(value) if isinstance(value, tuple) else private
    return replace(message, **changes)


def names_in(message: Struct) -> Iterator[Any]:
    """What the message names."""
    for name, entity in entity_fields(message):
        value = getattr(message, name)
        parts = value if isinstance(value, tuple) else (value,)
        for part in parts:
            if entity is None:
                yield from names_in(part)
            else:
                yield part


@dataclass(slots=True)
class Recording(FakeBroker):
    """A broker that has every api, and answers with samples."""

    bodies: list[tuple[RequestHeader, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.versions = {
            key: (api.versions[0], api.versions[-1])
            for key, api in APIS.items()
            if key not in NOT_IN_KAFKA
        }
        self.handlers = dict.fromkeys(NAMING_APIS - {ApiKey.METADATA}, self.record)

    async def record(self, wire: Wire, header: RequestHeader, body: bytes) -> None:
        """Keep the request, and send an answer."""
        self.bodies.append((header, body))
        await answer(
            wire, header, sample(APIS[ApiKey(header.api_key)].response, header.api_version)
        )


@pytest.mark.parametrize("padding", [0, 1, 4])
async def test_no_encoding_carries_a_private_name_to_the_broker(padding: int) -> None:
    """Each api in each version, with names, with ids, and with both."""
    async with running_fake_broker(Recording()) as broker:
        assert isinstance(broker, Recording)
        async with running_gateway([broker.address], private_names=PRIVATE) as gateway:
            async with open_wire(gateway.address) as client:
                for key, version in REQUESTS:
                    if key is not ApiKey.METADATA:
                        await _check_request(broker, client, key, version, padding)


async def _check_request(
    broker: Recording, client: Wire, key: ApiKey, version: int, padding: int
) -> None:
    request_type = APIS[key].request
    assert request_type is not None
    plain = sample(request_type, version)
    seen: set[Entity] = set()
    for entities in ({*Entity}, {Entity.TOPIC_ID}, {*Entity} - {Entity.TOPIC_ID}):
        request = with_private_names(plain, entities)
        if isinstance(request, FetchRequest):
            request = replace(request, session_epoch=-1)  # otherwise the gateway answers
        body = overlong_encoding(request, version, padding)
        readable = decode(request_type, body, version)
        is_masked = bool(PRIVATE.mask(readable)[1])
        seen |= entities if is_masked else set()
        await client.send(request_frame(key, version, 7, body))
        await client.frame()
        header, arrived = broker.bodies.pop()
        assert not broker.bodies
        assert header.api_key == key
        message = decode(request_type, arrived, header.api_version, trailing_ok=True)
        assert not {*NAMES.values()} & {*names_in(message)}, (key, version, entities)
        if is_masked:  # the broker gets what was understood, and nothing else
            assert encode(message, header.api_version) == arrived
    assert seen, (key, version)


@pytest.mark.parametrize("version", [0, 2, 8, 9, 13])
async def test_produce_carries_no_private_name_to_the_broker(version: int) -> None:
    """Produce is relayed as it arrives, whether it is long or short."""
    topic = STATE_ID.bytes if version >= 13 else STATE.encode()
    async with running_fake_broker(Recording()) as broker:
        assert isinstance(broker, Recording)
        async with running_gateway([broker.address], private_names=PRIVATE) as gateway:
            async with open_wire(gateway.address) as client:
                for records in (b"r", b"r" * 100_000):
                    await client.send(produce_frame(version, {topic: [records]}))
                    await client.frame()
                    _header, arrived = broker.bodies.pop()
                    assert records in arrived
                    assert topic not in arrived
