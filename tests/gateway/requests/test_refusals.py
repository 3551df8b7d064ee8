"""An error as an answer of each api and version."""

from typing import Any

import pytest

from gateway.hosting.answers import RefusalReason
from gateway.requests.messages import GroupMessage
from gateway.requests.refusals import refusal, refuse
from kafka_codecs import decode, encode
from kafka_codecs.apis import APIS
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.consumer_group_install_assignment import ConsumerGroupInstallAssignmentRequest
from kafka_codecs.consumer_group_prepare_assignment import ConsumerGroupPrepareAssignmentRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.join_group import JoinGroupRequest
from kafka_codecs.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_codecs.offset_commit import (
    OffsetCommitRequest,
)
from kafka_codecs.offset_delete import OffsetDeleteRequest
from kafka_codecs.sync_group import SyncGroupRequest
from kafka_codecs.txn_offset_commit import (
    TxnOffsetCommitRequest,
)
from tests.support.commits import commit_of, transactional_commit_of

OFFSETS = {"foo": {1: 5, 4: 5}}
COMMIT, TXN_COMMIT = commit_of(OFFSETS), transactional_commit_of(OFFSETS)
SYNC = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=())
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
PREPARE = ConsumerGroupPrepareAssignmentRequest(group_id="g", member_id="m", member_epoch=1)
INSTALL = ConsumerGroupInstallAssignmentRequest(
    group_id="g", member_id="m", member_epoch=1, group_epoch=1
)
MESSAGES: list[GroupMessage] = [
    JoinGroupRequest(
        group_id="g", session_timeout_ms=1, member_id="m", protocol_type="consumer", protocols=()
    ),
    SYNC,
    BEAT,
    LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="m"),)),
    ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1),
    PREPARE,
    INSTALL,
    COMMIT,
    TXN_COMMIT,
    OffsetDeleteRequest(group_id="g", topics=()),
]


def versions_of(message: GroupMessage) -> list[int]:
    """All supported versions."""
    key = message.SCHEMA.api_key
    assert key is not None
    return list(APIS[key].versions)


@pytest.mark.parametrize(
    ("message", "version"),
    [(message, version) for message in MESSAGES for version in versions_of(message)],
    ids=lambda value: str(value) if isinstance(value, int) else type(value).__name__,
)
def test_every_api_can_answer_an_error_in_every_version(
    message: GroupMessage, version: int
) -> None:
    """The answer survives the wire and has no other content."""
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    answer = refusal(message, version, code, "a reason")
    key = message.SCHEMA.api_key
    assert key is not None
    seen: Any = decode(APIS[key].response, encode(answer, version), version)
    if isinstance(message, OffsetCommitRequest | TxnOffsetCommitRequest):
        (topic,) = seen.topics
        assert [(p.partition_index, p.error_code) for p in topic.partitions] == [
            (1, code),
            (4, code),
        ]
    else:
        assert seen.error_code == code
    if isinstance(message, JoinGroupRequest):
        assert (seen.member_id, seen.generation_id, seen.members) == ("m", -1, ())
    if message in (PREPARE, INSTALL):
        assert seen.error_message == "a reason"
    if isinstance(message, ConsumerGroupHeartbeatRequest):
        assert seen.error_message == "a reason"
        assert (seen.member_id, seen.assignment) == (None, None)


@pytest.mark.parametrize("version", versions_of(SYNC))
def test_a_sync_is_asked_to_rejoin_while_the_broker_is_away(version: int) -> None:
    """Other errors are fatal to some clients."""
    answer: Any = refuse(SYNC, version, RefusalReason.BROKER_AWAY, "away")
    assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("version", versions_of(BEAT))
def test_a_classic_heartbeat_never_gets_the_loading_error(version: int) -> None:
    """The error is fatal to aiokafka. Success would be wrong, because the session may end."""
    answer: Any = refuse(BEAT, version, RefusalReason.BROKER_AWAY, "away")
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
