"""Clients that bypass the gateway: consumers and an admin of the cluster itself."""

import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from gateway.hosting.identity import INSTANCE_ID, log_of
from kafka_codecs.describe_groups import DescribedGroup
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kafka_codecs.offset_delete import OffsetDeleteResponse
from tests.support.group_client import GroupClient
from tests.support.group_requests import join_request, offset_delete_request
from tests.support.until import until_answered

RECORDS = 30
SESSION_TIMEOUT_MS = 10_000


def produce(servers: str, topic: str, partitions: int) -> None:
    """Write some records to every partition."""
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(30) == 0


def records_in(servers: str, topic: str, partitions: int) -> int:
    """How many records these partitions have."""
    reader = Consumer({"bootstrap.servers": servers, "group.id": "reader", "log_level": 0})
    try:
        marks = [
            reader.get_watermark_offsets(TopicPartition(topic, number), timeout=10)
            for number in range(partitions)
        ]
    finally:
        reader.close()
    return sum(high - low for low, high in marks)


def consume_for(
    servers: str, topic: str, group: str, protocol: str, length_s: float
) -> tuple[int, set[str]]:
    """Consume with a real client for this time. Return the number of records, and the errors."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    until = time.monotonic() + length_s
    records, errors = 0, set[str]()
    try:
        while time.monotonic() < until:
            try:
                message = consumer.poll(0.1)
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                errors.add(error.str())
                break
            if message is not None and (error_ := message.error()) is not None:
                errors.add(error_.str())
            elif message is not None:
                records += 1
    finally:
        consumer.close()
    return records, errors


async def anchor_in(direct: GroupClient) -> DescribedGroup:
    """The group as the cluster describes it. An anchor must hold it."""
    group = await direct.describe()
    assert group.group_state == "Stable"
    assert log_of(group) is not None, group
    assert len(group.members) == 1
    return group


async def until_anchored(direct: GroupClient, *, but_not_by: str = "") -> DescribedGroup:
    """Wait until the cluster has an anchor other than this member."""

    def is_held(group: DescribedGroup) -> bool:
        is_stable = group.group_state == "Stable" and log_of(group) is not None
        return is_stable and group.members[0].member_id != but_not_by

    return await until_answered(direct.describe, is_held)


async def remove_anchor(direct: GroupClient, instance_id: str = INSTANCE_ID) -> int:
    """Remove the anchor as an admin removes a static member, and return the error code."""
    answer: LeaveGroupResponse = await direct.connection.ask(
        LeaveGroupRequest(
            group_id=direct.group,
            members=(MemberIdentity(member_id="", group_instance_id=instance_id),),
        )
    )
    return answer.members[0].error_code


async def replace_anchor(direct: GroupClient) -> JoinGroupResponse:
    """Replace the anchor as another gateway on the same state log would."""
    group = await until_anchored(direct)
    answer: JoinGroupResponse = await direct.connection.ask(
        join_request(
            direct.group,
            instance_id=INSTANCE_ID,
            protocol_type=group.protocol_type,
            protocols=[(group.protocol_data, group.members[0].member_metadata)],
            timeout_ms=SESSION_TIMEOUT_MS,
        )
    )
    return answer


async def delete_offsets(client: GroupClient, partitions: Sequence[int] = (0,)) -> int:
    """The error code of an OffsetDelete request."""
    answer: OffsetDeleteResponse = await client.connection.ask(
        offset_delete_request(client.group, {"numbers": partitions})
    )
    return answer.error_code or answer.topics[0].partitions[0].error_code
