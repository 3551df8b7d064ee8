"""Fields whose meaning depends on the version."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from coordinator.interface.events import ConsumerHeartbeatReceived, HeartbeatReceived, Leaver
from coordinator.interface.records import AssignmentMetadata
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    HeartbeatReply,
    JoinedMember,
    JoinGroupReply,
    LeaveGroupReply,
    LeftMember,
    SyncGroupReply,
)
from coordinator.interface.topics import Partition
from gateway.requests import messages
from kafka_codecs import consumer_group_heartbeat, decode, encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kafka_codecs.sync_group import SyncGroupAssignment, SyncGroupRequest

FRESH = uuid4()
TOPIC_A, TOPIC_B = sorted([UUID(int=7), UUID(int=9)])


def header(key: ApiKey, version: int, client_id: str | None = "c") -> RequestHeader:
    """A request's header."""
    return RequestHeader(api_key=key, api_version=version, correlation_id=1, client_id=client_id)


JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=6_000,
    rebalance_timeout_ms=60_000,
    member_id="m",
    group_instance_id="i",
    protocol_type="consumer",
    protocols=(
        JoinGroupProtocol(name="range", metadata=b"r"),
        JoinGroupProtocol(name="sticky", metadata=b"s"),
    ),
)


@pytest.mark.parametrize(
    ("version", "rebalance_timeout_ms"), [(0, 6_000), (1, 60_000), (9, 60_000)]
)
def test_join_v0_uses_its_session_timeout_for_the_rebalance(
    version: int, rebalance_timeout_ms: int
) -> None:
    """v0 has no rebalance timeout (rule 1.2)."""
    event = messages.join_event(1, header(ApiKey.JOIN_GROUP, version), JOIN, "10.0.0.1", FRESH)
    assert event.rebalance_timeout_ms == rebalance_timeout_ms
    assert event.session_timeout_ms == 6_000
    assert event.protocols == (("range", b"r"), ("sticky", b"s"))
    assert (event.token, event.version, event.member_id) == (1, version, "m")
    assert (event.instance_id, event.client_id) == ("i", "c")
    assert (event.client_host, event.fresh_id) == ("/10.0.0.1", FRESH)


def test_a_missing_client_id_is_empty() -> None:
    """The header's client id may be null."""
    nameless = header(ApiKey.JOIN_GROUP, 5, client_id=None)
    assert messages.join_event(1, nameless, JOIN, "::1", FRESH).client_id == ""


@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize("name", [None, "range"])
def test_no_protocol_is_null_from_v7_on_and_empty_before(version: int, name: str | None) -> None:
    """KIP-559."""
    reply = JoinGroupReply(
        member_id="m",
        generation=3,
        protocol_type="consumer",
        protocol_name=name,
        leader="m",
        members=(JoinedMember(member_id="m", instance_id="i", metadata=b"s"),),
    )
    answer = messages.join_response(reply, version)
    seen = decode(JoinGroupResponse, encode(answer, version), version)
    assert seen.protocol_name == (name or (None if version >= 7 else ""))
    assert seen.protocol_type == ("consumer" if version >= 7 else None)
    assert seen.members[0].group_instance_id == ("i" if version >= 5 else None)
    assert (seen.leader, seen.generation_id, seen.skip_assignment) == ("m", 3, False)


def test_a_leader_may_skip_the_assignment() -> None:
    """v9 adds the field (KIP-814)."""
    assert messages.join_response(JoinGroupReply(skip_assignment=True), 9).skip_assignment


def test_a_sync_has_the_leaders_assignments() -> None:
    """v5 adds fields that the answer repeats."""
    request = SyncGroupRequest(
        group_id="g",
        generation_id=3,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
        assignments=(SyncGroupAssignment(member_id="m", assignment=b"a"),),
    )
    event = messages.sync_event(2, header(ApiKey.SYNC_GROUP, 5), request)
    assert (event.generation, event.assignments) == (3, (("m", b"a"),))
    assert (event.protocol_type, event.protocol_name) == ("consumer", "range")
    answer = messages.sync_response(
        SyncGroupReply(protocol_type="consumer", protocol_name="range", assignment=b"a")
    )
    assert (answer.error_code, answer.assignment) == (0, b"a")
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


def test_a_heartbeat_has_a_generation() -> None:
    """A heartbeat has no other data of the member."""
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="m", group_instance_id="i")
    event = messages.event(2, header(ApiKey.HEARTBEAT, 4), request, "h")
    assert event == HeartbeatReceived(token=2, member_id="m", instance_id="i", generation=3)
    reply = HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS)
    rebalance = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert messages.response(reply, 4) == rebalance


@pytest.mark.parametrize("version", range(6))
def test_a_leave_names_one_member_before_v3_and_any_number_later(version: int) -> None:
    """KIP-345."""
    request = LeaveGroupRequest(
        group_id="g",
        member_id="m",
        members=(
            MemberIdentity(member_id="a", group_instance_id=None),
            MemberIdentity(member_id="", group_instance_id="i"),
        ),
    )
    event = messages.leave_event(1, header(ApiKey.LEAVE_GROUP, version), request)
    one = (Leaver(member_id="m"),)
    many = (Leaver(member_id="a"), Leaver(member_id="", instance_id="i"))
    assert event.members == (one if version < 3 else many)


@pytest.mark.parametrize("version", range(6))
def test_before_v3_the_members_error_is_the_top_level_one(version: int) -> None:
    """These versions have no other field for it."""
    reply = LeaveGroupReply(
        members=(LeftMember(member_id="m", instance_id=None, error=ErrorCode.UNKNOWN_MEMBER_ID),)
    )
    answer = messages.leave_response(reply, version)
    seen = decode(LeaveGroupResponse, encode(answer, version), version)
    if version < 3:
        assert (seen.error_code, seen.members) == (25, ())
    else:
        assert seen.error_code == 0
        assert [(m.member_id, m.error_code) for m in seen.members] == [("m", 25)]


def test_a_leave_answer_repeats_the_ids_of_the_request() -> None:
    """This applies from v3 on. An admin's tool names static members only by instance id."""
    left = (
        LeftMember(member_id="m", instance_id=None, error=ErrorCode.NONE),
        LeftMember(member_id="", instance_id="i", error=ErrorCode.FENCED_INSTANCE_ID),
    )
    answer = messages.leave_response(LeaveGroupReply(members=left), 3)
    seen = decode(LeaveGroupResponse, encode(answer, 3), 3)
    assert [(m.member_id, m.group_instance_id, m.error_code) for m in seen.members] == [
        ("m", None, 0),
        ("", "i", 82),
    ]


def test_a_native_heartbeat_has_the_changed_fields() -> None:
    """Null means unchanged, and an empty list none."""
    key = ApiKey.CONSUMER_GROUP_HEARTBEAT
    quiet = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=4)
    event = messages.consumer_heartbeat_event(1, header(key, 1), quiet, "h", FRESH)
    assert (event.member_epoch, event.client_host) == (4, "/h")
    assert (event.topic_names, event.topic_regex, event.owned) == (None, None, None)
    assert event.client_assignors is None
    assert not event.is_full
    assert not event.lists_owned_topics
    full = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        instance_id="i",
        rack_id="r",
        rebalance_timeout_ms=5,
        subscribed_topic_names=("foo",),
        server_assignor="range",
        client_assignors=(),
        topic_partitions=(
            consumer_group_heartbeat.TopicPartitions(topic_id=TOPIC_A, partitions=(0, 1)),
            consumer_group_heartbeat.TopicPartitions(topic_id=TOPIC_B, partitions=(2,)),
        ),
    )
    event = messages.consumer_heartbeat_event(1, header(key, 1), full, "h", FRESH)
    assert event.owned == frozenset(
        {Partition(TOPIC_A, 0), Partition(TOPIC_A, 1), Partition(TOPIC_B, 2)}
    )
    assert (event.instance_id, event.rack_id, event.server_assignor) == ("i", "r", "range")
    assert event.is_full
    assert event.lists_owned_topics
    assert event.client_assignors == ()


def test_a_native_heartbeats_answer_groups_partitions_by_topic() -> None:
    """A missing assignment means unchanged, an empty one no partitions."""
    granted = frozenset({Partition(TOPIC_B, 2), Partition(TOPIC_A, 1), Partition(TOPIC_A, 0)})
    reply = ConsumerHeartbeatReply(
        member_id="m", member_epoch=5, heartbeat_interval_ms=5_000, assignment=granted
    )
    answer = messages.consumer_heartbeat_response(reply)
    assert answer.assignment is not None
    partitions = [
        (topic.topic_id, topic.partitions) for topic in answer.assignment.topic_partitions
    ]
    assert partitions == [(TOPIC_A, (0, 1)), (TOPIC_B, (2,))]
    assert (answer.member_epoch, answer.heartbeat_interval_ms) == (5, 5_000)
    assert answer.error_message is None
    unchanged = messages.consumer_heartbeat_response(ConsumerHeartbeatReply(member_id="m"))
    assert unchanged.assignment is None
    nothing = messages.consumer_heartbeat_response(
        ConsumerHeartbeatReply(member_id="m", assignment=frozenset())
    )
    assert nothing.assignment is not None
    assert nothing.assignment.topic_partitions == ()


def test_a_client_side_assignor_reaches_its_member() -> None:
    """Nothing is said without one, so that other clients see Kafka's bytes."""
    plain = ConsumerHeartbeatReply(member_id="m", assignment=frozenset())
    answer = messages.consumer_heartbeat_response(plain)
    assert encode(answer, 1) == encode(
        consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(
            member_id="m", assignment=consumer_group_heartbeat.Assignment(topic_partitions=())
        ),
        1,
    )
    heartbeat = replace(
        plain,
        should_compute=True,
        assignment_error=-3,
        assignment_metadata=AssignmentMetadata(version=2, metadata=b"x"),
    )
    answer = messages.consumer_heartbeat_response(heartbeat)
    assert answer.should_compute_assignment
    assert answer.assignment == consumer_group_heartbeat.Assignment(
        topic_partitions=(), error=-3, metadata_version=2, metadata_bytes=b"x"
    )


def test_a_native_heartbeat_says_what_its_connection_proves() -> None:
    """DEV D90: the engine knows no connections itself."""
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
    key = ApiKey.CONSUMER_GROUP_HEARTBEAT
    event = messages.event(
        1,
        header(key, 1),
        request,
        "h",
        connection=7,
        newest_connection=9,
        follows_answers=False,
    )
    assert isinstance(event, ConsumerHeartbeatReceived)
    assert (event.connection, event.newest_connection, event.follows_answers) == (7, 9, False)
