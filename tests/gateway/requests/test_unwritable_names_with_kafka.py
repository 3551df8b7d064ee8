"""Names that cannot be encoded get an answer: the brokers' answer if there is one."""

from collections.abc import Iterable
from typing import Any

import pytest
import trio

from kafka_codecs import decode, encode
from kafka_codecs.apis import APIS
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.delete_groups import DeleteGroupsRequest
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import decode_response_header
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.join_group import JoinGroupRequest
from kafka_codecs.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_codecs.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_codecs.primitives import STRING_SIZE_MAX
from kafka_codecs.sync_group import SyncGroupRequest
from tests.support.commits import commit_of
from tests.support.gateway import whole_gateway
from tests.support.group_client import find_coordinator, fresh_group
from tests.support.group_requests import join_request
from tests.support.kafka_broker import FETCH_TIMEOUT_S, TOPIC, KafkaCluster
from tests.support.wire import Wire, open_wire, request_frame

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

PLACEHOLDER = "~" * STRING_SIZE_MAX
SILENCE_S = 3.0
"""A broker that has not answered by then never will: its error would repeat the name."""
INCOMPARABLE = {
    ErrorCode.UNSUPPORTED_VERSION,  # a release without native members
    ErrorCode.NOT_COORDINATOR,  # of the group whose name is unwritable
    ErrorCode.NONE,  # a join at 3.9, which fails only when the group is stored
}


def join(group: str, **fields: Any) -> JoinGroupRequest:
    return join_request(group, [TOPIC], **fields)


def heartbeat(group: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    values = {"member_id": "m", "subscribed_topic_names": (TOPIC,), **fields}
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        topic_partitions=(),
        **values,
    )


def requests(group: str) -> Iterable[tuple[str, Struct, int]]:
    """Requests with one name each that cannot be written, and their versions."""
    grown, offsets = PLACEHOLDER, {TOPIC: {0: 5}}
    beat = HeartbeatRequest(group_id=group, generation_id=1, member_id=grown)
    yield "join: group", join(grown), 3
    yield "join: member", join(group, member_id=grown), 5
    yield "join: instance", join(group, instance_id=grown), 5
    yield (
        "sync: member",
        SyncGroupRequest(group_id=group, generation_id=1, member_id=grown, assignments=()),
        3,
    )
    yield "heartbeat: member", beat, 4
    yield (
        "leave: member",
        LeaveGroupRequest(group_id=group, members=(MemberIdentity(member_id=grown),)),
        3,
    )
    yield (
        "leave: instance",
        LeaveGroupRequest(
            group_id=group, members=(MemberIdentity(member_id="", group_instance_id=grown),)
        ),
        3,
    )
    yield "native: group", heartbeat(grown), 0
    yield "native: instance", heartbeat(group, instance_id=grown), 0
    yield "native: rack", heartbeat(group, rack_id=grown), 0
    yield "native: topic", heartbeat(group, subscribed_topic_names=(TOPIC, grown)), 0
    yield "commit: group", commit_of(offsets, group_id=grown), 8
    yield "commit: topic", commit_of({**offsets, grown: {0: 5}}, group_id=group), 8
    both = (
        OffsetFetchRequestGroup(group_id=group, topics=None),
        OffsetFetchRequestGroup(group_id=grown, topics=None),
    )
    yield "fetch: group", OffsetFetchRequest(groups=both), 8
    yield "delete: group", DeleteGroupsRequest(groups_names=(group, grown)), 2
    yield "describe: group", DescribeGroupsRequest(groups=(group, grown)), 4


async def ask(wire: Wire, message: Struct, version: int) -> Any:
    """The answer to a request with malformed bytes in place of the placeholder, None if none
    comes."""
    key = message.SCHEMA.api_key
    assert key is not None
    frame = request_frame(key, version, 7, encode(message, version))
    await wire.send(frame.replace(PLACEHOLDER.encode(), b"\xff" * STRING_SIZE_MAX))
    with trio.move_on_after(SILENCE_S):
        answer = await wire.frame()
        _, offset = decode_response_header(key, version, answer)
        return decode(APIS[key].response, answer[offset:], version)
    return None


@pytest.mark.parametrize("is_forwarded", [False, True], ids=["hosted", "forwarded"])
async def test_unwritable_names_get_the_brokers_answers(
    kafka: KafkaCluster, is_forwarded: bool
) -> None:
    """Where the brokers are silent, the gateway answers with an error. The connection stays, and
    the groups of others are served."""
    group = fresh_group("unwritable")
    broker = await find_coordinator(kafka.addresses[0], group)
    patterns = ("*",) if is_forwarded else ()
    async with whole_gateway(kafka.addresses, forward_patterns=patterns) as gateway:
        here = await find_coordinator(gateway.address, group)
        async with open_wire((here.host, here.port)) as wire:
            for name, message, version in requests(group):
                answer = await ask(wire, message, version)
                assert answer is not None, name
                async with open_wire((broker.host, broker.port)) as at_broker:
                    expected = await ask(at_broker, message, version)
                code = getattr(expected, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)
                if code in INCOMPARABLE:
                    continue
                assert f"error_code={code:d}" in repr(answer), name
                if expected is not None and "topics=((" in repr(expected):
                    assert answer == expected, name
            assert (await wire.ask(DescribeGroupsRequest(groups=(group,)), 4)).groups
        gateway.stop.set()
        await gateway.ended.wait()
