"""Strings that are no UTF-8 get the brokers' answers."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from kafka_codecs import decode, encode
from kafka_codecs.apis import APIS
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.find_coordinator import FindCoordinatorRequest
from kafka_codecs.header import decode_response_header
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.metadata import MetadataRequest, MetadataRequestTopic
from kafka_codecs.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.support.commits import commit_of
from tests.support.gateway import whole_gateway
from tests.support.group_client import find_coordinator, fresh_group
from tests.support.group_requests import join_request, sync_request
from tests.support.group_script import subscription
from tests.support.kafka_broker import FETCH_TIMEOUT_S, TOPIC, KafkaCluster
from tests.support.wire import Wire, open_wire, request_frame

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

PLACEHOLDER, MALFORMED, REPLACED = "~~~", b"\x80\x01\xff", "\ufffd\x01\ufffd"
"""A text of the same length, the bytes in its place, and what Kafka takes them for."""
_FRESH_ID = re.compile(r"-[0-9a-f]{8}-[0-9a-f-]{27}")


async def ask(wire: Wire, message: Struct, version: int) -> Any:
    """The answer to a request with malformed bytes in place of the placeholder."""
    key = message.SCHEMA.api_key
    assert key is not None
    client_id = f"client-{PLACEHOLDER}"
    frame = request_frame(key, version, 7, encode(message, version), client_id)
    await wire.send(frame.replace(PLACEHOLDER.encode(), MALFORMED))
    answer = await wire.frame()
    _, offset = decode_response_header(key, version, answer)
    return decode(APIS[key].response, answer[offset:], version)


async def answers(address: tuple[str, int], group: str) -> Mapping[str, str]:
    """What a member of the group is answered, without what the address and chance decide."""
    broker = await find_coordinator(address, group.replace(PLACEHOLDER, REPLACED))
    seen: dict[str, Any] = {}
    async with open_wire((broker.host, broker.port)) as wire:
        coordinator = await ask(wire, FindCoordinatorRequest(key=group), 2)
        assert (coordinator.host, coordinator.port) == (broker.host, broker.port)
        topics = (MetadataRequestTopic(name=f"topic-{PLACEHOLDER}"),)
        metadata = await ask(wire, MetadataRequest(topics=topics), 9)
        seen["metadata"] = metadata.topics
        join = join_request(
            group,
            instance_id=f"instance-{PLACEHOLDER}",
            protocols=[(f"by-{PLACEHOLDER}", subscription([TOPIC]))],
        )
        joined = await ask(wire, join, 7)
        seen["joined"] = joined
        member_id = joined.member_id.replace(REPLACED, PLACEHOLDER)
        seen["synced"] = await ask(
            wire,
            sync_request(
                group,
                member_id,
                joined.generation_id,
                {member_id: b"all"},
                instance_id=f"instance-{PLACEHOLDER}",
                protocol_type=None,
                protocol=None,
            ),
            4,
        )
        seen["heartbeat"] = await ask(
            wire,
            HeartbeatRequest(
                group_id=group, generation_id=joined.generation_id, member_id=member_id
            ),
            4,
        )
        commit = commit_of(
            {TOPIC: {0: 5}, f"topic-{PLACEHOLDER}": {0: 5}},
            group_id=group,
            member_id=member_id,
            epoch=joined.generation_id,
            metadata=f"offsets-{PLACEHOLDER}",
        )
        for version in (2, 8):
            seen[f"committed-{version}"] = await ask(wire, commit, version)
        asked = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0,))
        seen["fetched"] = await ask(wire, OffsetFetchRequest(group_id=group, topics=(asked,)), 5)
        described = await ask(wire, DescribeGroupsRequest(groups=(group,)), 4)
        (member,) = described.groups[0].members
        seen["described"] = (described.groups[0].group_id, member.client_id, member.member_id)
    return {name: _FRESH_ID.sub("-ID", repr(answer)) for name, answer in seen.items()}


@pytest.mark.parametrize("is_forwarded", [False, True], ids=["hosted", "forwarded"])
async def test_malformed_strings_get_the_brokers_answers(
    kafka: KafkaCluster, is_forwarded: bool
) -> None:
    """Whatever is stored has replacements, and two spellings of a name are one name."""
    group = fresh_group(f"group-{PLACEHOLDER}")
    patterns = ("group-*",) if is_forwarded else ()
    async with whole_gateway(kafka.addresses, forward_patterns=patterns) as gateway:
        behind = await answers(gateway.address, group)
        gateway.stop.set()
        await gateway.ended.wait()
    assert repr(f"offsets-{REPLACED}") in behind["fetched"]
    at_broker = await answers(kafka.addresses[0], fresh_group(f"group-{PLACEHOLDER}"))
    for name, answer in behind.items():
        suffix = re.compile(r"(group-[^-]*-)[0-9a-f]{8}")
        assert suffix.sub(r"\1", answer) == suffix.sub(r"\1", at_broker[name]), name
