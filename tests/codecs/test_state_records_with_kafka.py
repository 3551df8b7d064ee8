"""Apache Kafka's own classes read the records of the state log, and write the same bytes."""

import base64
import json
import subprocess
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from kafka_codecs import state_records as records
from kafka_codecs.state_records import RecordType, encode_key, encode_value
from tests.support.client_programs import SCRIPTS
from tests.support.kafka_jars import FETCH_TIMEOUT_S, kafka_jars
from tests.support.releases import NEWEST

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

READER = SCRIPTS / "java" / "StateRecords.java"
TOPIC_ID = UUID("0198c0de-0000-7000-8000-00000000002a")
GROUP_KEY = records.GroupKey(group_id="orders")
MEMBER_KEY = records.MemberKey(group_id="orders", member_id="m")
EPOCHS = records.HeldPartitions(topic_id=TOPIC_ID, partitions=(4, 1), assignment_epochs=(6, 2))

Case = tuple[RecordType, records.GroupsKey, records.Value, Mapping[str, Any]]


def as_kafka_writes(topic_id: UUID) -> str:
    """A topic id in Kafka's text form."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def base64_of(data: bytes) -> str:
    """Bytes as base64, as in Kafka's JSON."""
    return base64.b64encode(data).decode()


def as_kafka_shows(kind: RecordType, key: records.GroupsKey) -> Mapping[str, Any]:
    """A key as JSON. In the oldest one the field has another name."""
    match key:
        case records.GroupKey(group_id=group_id):
            return {"group" if kind is RecordType.GROUP_METADATA else "groupId": group_id}
        case records.MemberKey(group_id=group_id, member_id=member_id):
            return {"groupId": group_id, "memberId": member_id}
        case records.RegularExpressionKey(group_id=group_id, regular_expression=regex):
            return {"groupId": group_id, "regularExpression": regex}


CASES: list[Case] = [
    (
        RecordType.GROUP_METADATA,
        GROUP_KEY,
        records.GroupMetadataValue(
            protocol_type="consumer",
            generation=7,
            protocol="range",
            leader="m",
            current_state_timestamp=-1,
            members=(
                records.GroupMember(
                    member_id="m",
                    group_instance_id="i",
                    client_id="c",
                    client_host="/h",
                    rebalance_timeout=1,
                    session_timeout=2,
                    subscription=b"\x00\x01",
                    assignment=b"\x02",
                    protocols=(records.OfferedProtocol(name="range", metadata=None),),
                ),
            ),
            unwatched_hash=5,
        ),
        {
            "protocolType": "consumer",
            "generation": 7,
            "protocol": "range",
            "leader": "m",
            "currentStateTimestamp": -1,
            "members": [
                {
                    "memberId": "m",
                    "groupInstanceId": "i",
                    "clientId": "c",
                    "clientHost": "/h",
                    "rebalanceTimeout": 1,
                    "sessionTimeout": 2,
                    "subscription": base64_of(b"\x00\x01"),
                    "assignment": base64_of(b"\x02"),
                }
            ],
        },
    ),
    (
        RecordType.CONSUMER_GROUP_METADATA,
        GROUP_KEY,
        records.ConsumerGroupMetadataValue(epoch=12, metadata_hash=9, cause="member_joined"),
        {"epoch": 12, "metadataHash": 9},
    ),
    (
        RecordType.CONSUMER_GROUP_MEMBER_METADATA,
        MEMBER_KEY,
        records.ConsumerGroupMemberMetadataValue(
            instance_id="i",
            rack_id="r",
            client_id="c",
            client_host="/h",
            subscribed_topic_names=("bar", "foo"),
            subscribed_topic_regex="ba.*",
            rebalance_timeout_ms=300_000,
            server_assignor="range",
            classic_member_metadata=records.ClassicMemberMetadata(
                session_timeout_ms=45_000,
                supported_protocols=(records.ClassicProtocol(name="range", metadata=b"\x01"),),
            ),
        ),
        {
            "instanceId": "i",
            "rackId": "r",
            "clientId": "c",
            "clientHost": "/h",
            "subscribedTopicNames": ["bar", "foo"],
            "subscribedTopicRegex": "ba.*",
            "rebalanceTimeoutMs": 300_000,
            "serverAssignor": "range",
            "classicMemberMetadata": {
                "sessionTimeoutMs": 45_000,
                "supportedProtocols": [{"name": "range", "metadata": base64_of(b"\x01")}],
            },
        },
    ),
    (
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
        GROUP_KEY,
        records.ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=12, assignment_timestamp=1_767_225_600_000, assignor="uniform"
        ),
        {"assignmentEpoch": 12, "assignmentTimestamp": 1_767_225_600_000},
    ),
    (
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
        MEMBER_KEY,
        records.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=(records.TargetPartitions(topic_id=TOPIC_ID, partitions=(0, 3)),)
        ),
        {"topicPartitions": [{"topicId": as_kafka_writes(TOPIC_ID), "partitions": [0, 3]}]},
    ),
    (
        RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
        MEMBER_KEY,
        records.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=12,
            previous_member_epoch=11,
            state=1,
            assigned_partitions=(EPOCHS,),
            partitions_pending_revocation=(),
        ),
        {
            "memberEpoch": 12,
            "previousMemberEpoch": 11,
            "state": 1,
            "assignedPartitions": [
                {
                    "topicId": as_kafka_writes(TOPIC_ID),
                    "partitions": [4, 1],
                    "assignmentEpochs": [6, 2],
                }
            ],
            "partitionsPendingRevocation": [],
        },
    ),
    (
        RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION,
        records.RegularExpressionKey(group_id="orders", regular_expression="ba.*"),
        records.ConsumerGroupRegularExpressionValue(topics=("bar",), version=3, timestamp=4),
        {"topics": ["bar"], "version": 3, "timestamp": 4},
    ),
]


def test_kafkas_classes_read_and_write_the_same_bytes() -> None:
    """This covers all of Kafka's types. Kafka preserves groupferry's additions without reading
    them."""
    ours = [(encode_key(kind, key), encode_value(value)) for kind, key, value, _ in CASES]
    done = subprocess.run(
        ["java", "-cp", f"{kafka_jars(NEWEST)}/*", str(READER)],
        input="".join(f"{key.hex()} {value.hex()}\n" for key, value in ours),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    read = [json.loads(line) for line in done.stdout.splitlines()]
    assert [found["type"] for found in read] == [kind for kind, _, _, _ in CASES]
    assert [found["key"] for found in read] == [as_kafka_shows(k, key) for k, key, _, _ in CASES]
    assert [found["value"] for found in read] == [shown for _, _, _, shown in CASES]
    theirs = [
        (bytes.fromhex(found["key_bytes"]), bytes.fromhex(found["value_bytes"])) for found in read
    ]
    assert theirs == ours
