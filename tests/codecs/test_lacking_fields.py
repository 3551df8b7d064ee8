"""A field that a version lacks is dropped only if Kafka's schema calls it ignorable: otherwise the
message would mean something else. kio does not know which fields these are."""

from typing import Any
from uuid import UUID

import pytest

from kafka_codecs import WireError, decode, encode
from kafka_codecs.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeResponse,
    MemberType,
)
from kafka_codecs.consumer_group_describe import DescribedGroup as NativeGroup
from kafka_codecs.consumer_group_describe import Member as NativeMember
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_configs import (
    ConfigSource,
    ConfigType,
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafka_codecs.describe_groups import DescribedGroup, DescribeGroupsResponse
from kafka_codecs.find_coordinator import FindCoordinatorRequest
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_codecs.metadata import MetadataRequest
from kafka_codecs.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from kafka_codecs.offset_fetch import OffsetFetchRequest
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest


def join(**more: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=6000,
        member_id="m",
        protocol_type="consumer",
        protocols=(),
        **more,
    )


def native_group(member_type: MemberType) -> ConsumerGroupDescribeResponse:
    member = NativeMember(
        member_id="m",
        member_epoch=4,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=("t",),
        assignment=Assignment(topic_partitions=()),
        target_assignment=Assignment(topic_partitions=()),
        member_type=member_type,
    )
    return ConsumerGroupDescribeResponse(groups=(NativeGroup(group_id="g", members=(member,)),))


def config(**more: Any) -> DescribeConfigsResponse:
    setting = DescribeConfigsResourceResult(
        name="k",
        value=None,
        read_only=True,
        config_source=ConfigSource.STATIC_BROKER,
        is_sensitive=True,
        synonyms=(),
        **more,
    )
    result = DescribeConfigsResult(resource_type=32, resource_name="g", configs=(setting,))
    return DescribeConfigsResponse(results=(result,))


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (
            ConsumerGroupHeartbeatRequest(
                group_id="g", member_id="m", member_epoch=0, subscribed_topic_regex="t.*"
            ),
            0,
            "subscribed_topic_regex",
        ),
        (DescribeConfigsRequest(resources=(), include_documentation=True), 2, "include_docum"),
        (
            DescribeGroupsResponse(groups=(DescribedGroup(group_id="g", error_message="no"),)),
            5,
            r"groups\.error_message",
        ),
        (FindCoordinatorRequest(coordinator_keys=("g",)), 3, "coordinator_keys"),
        (join(group_instance_id="i"), 4, "group_instance_id"),
        (
            LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="m"),)),
            2,
            "members",
        ),
        (OffsetFetchRequest(group_id="g", require_stable=True), 6, "require_stable"),
        (
            # Without the generation a zombie could commit (KIP-447).
            TxnOffsetCommitRequest(
                transactional_id="x",
                group_id="g",
                producer_id=7,
                producer_epoch=1,
                topics=(),
                generation_id=4,
            ),
            2,
            "generation_id",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Struct) else None,
)
def test_a_field_that_matters_is_never_dropped(message: Struct, version: int, field: str) -> None:
    """The caller sends several requests, or refuses."""
    with pytest.raises(WireError, match=f"{field}\\w*: this version has no such field"):
        encode(message, version)


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (MetadataRequest(topics=None), 0, "topics"),
        (OffsetFetchRequest(group_id="g", topics=None), 1, "topics"),
        (JoinGroupResponse(protocol_name=None), 6, "protocol_name"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Struct) else None,
)
def test_null_needs_the_version_that_allows_it(message: Struct, version: int, field: str) -> None:
    """Later versions carry it."""
    assert decode(type(message), encode(message, version + 1), version + 1) == message
    with pytest.raises(WireError, match=f"{field}: null where a value is required"):
        encode(message, version)


@pytest.mark.parametrize(
    ("full", "plain", "version"),
    [
        (native_group(MemberType.CLASSIC), native_group(MemberType.UNKNOWN), 0),
        (join(reason="reason"), join(), 5),
        (config(config_type=ConfigType.INT, documentation="reason"), config(), 2),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Struct) else None,
)
def test_an_ignorable_field_is_dropped(full: Struct, plain: Struct, version: int) -> None:
    """The next version of interest carries it."""
    assert encode(full, version) == encode(plain, version)
    newest = full.SCHEMA.versions[-1]
    assert encode(full, newest) != encode(plain, newest)


def test_a_topic_may_carry_name_and_id() -> None:
    """Each version writes the one that it supports; the other is ignorable."""
    topic = OffsetCommitRequestTopic(name="t", topic_id=UUID(int=1), partitions=())
    both = OffsetCommitRequest(group_id="g", topics=(topic,))
    assert b"\x02t" in encode(both, 9)
    assert UUID(int=1).bytes not in encode(both, 9)
    assert UUID(int=1).bytes in encode(both, 10)
