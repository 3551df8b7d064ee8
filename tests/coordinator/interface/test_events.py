"""The events of a group."""

from dataclasses import replace
from typing import get_args

import pytest

from coordinator.interface.errors import GroupError
from coordinator.interface.events import (
    ClaimReceived,
    ConfigsReceived,
    ConsumerHeartbeatReceived,
    DeleteGroupReceived,
    HeartbeatReceived,
    InstallAssignmentReceived,
    LeaveGroupReceived,
    OffsetCommitReceived,
    OffsetDeleteReceived,
    OffsetFetchReceived,
    PrepareAssignmentReceived,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.replies import JoinGroupReply
from kafka_codecs.error_codes import ErrorCode
from tests.support.engine_requests import CLASSIC_JOIN, NATIVE_JOIN

REQUESTS: list[Request] = [
    CLASSIC_JOIN,
    NATIVE_JOIN,
    SyncGroupReceived(token=1, version=5, member_id="m", instance_id=None, generation=1),
    HeartbeatReceived(token=1, member_id="m", instance_id=None, generation=1),
    LeaveGroupReceived(token=1, members=()),
    PrepareAssignmentReceived(token=1, member_id="m", member_epoch=1),
    InstallAssignmentReceived(token=1, member_id="m", member_epoch=1, group_epoch=1),
    OffsetCommitReceived(
        token=1, version=9, member_id="m", instance_id=None, epoch=1, partitions=frozenset()
    ),
    OffsetFetchReceived(token=1, member_id=None, epoch=-1, partitions=None),
    OffsetDeleteReceived(token=1, topic_names=()),
    DeleteGroupReceived(token=1),
    ClaimReceived(token=1),
    ConfigsReceived(token=1, changes=()),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_each_request_makes_its_refusal(request_: Request) -> None:
    """The refusal has code and reason."""
    reply = request_.refuse(GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, "full"))
    assert (reply.error, reply.reason) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "full")


def test_the_tests_cover_every_request() -> None:
    """The table above has every type of the union."""
    assert {type(request) for request in REQUESTS} == set(get_args(Request))


def test_a_refused_join_echoes_the_errors_member_id() -> None:
    """The answer does not echo the request's id (rule 5.2)."""
    refused = CLASSIC_JOIN.refuse(GroupError(ErrorCode.UNKNOWN_MEMBER_ID, "who?", member_id="x"))
    assert isinstance(refused, JoinGroupReply)
    assert (refused.member_id, refused.generation) == ("x", -1)


def test_a_sync_during_a_load_is_asked_to_rejoin() -> None:
    """See `SyncGroupReply.refusal`."""
    sync = SyncGroupReceived(token=1, version=5, member_id="m", instance_id=None, generation=1)
    refused = sync.refuse(GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading"))
    assert refused.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_classic_heartbeat_is_not_refused_while_its_group_loads() -> None:
    """See `HeartbeatReply.refusal`."""
    beat = HeartbeatReceived(token=1, member_id="m", instance_id=None, generation=1)
    refused = beat.refuse(GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading"))
    assert refused.error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("heartbeat", "is_full"),
    [
        (NATIVE_JOIN, True),
        (replace(NATIVE_JOIN, topic_names=None, topic_regex=""), True),
        (replace(NATIVE_JOIN, rebalance_timeout_ms=-1), False),
        (replace(NATIVE_JOIN, topic_names=None), False),
        (replace(NATIVE_JOIN, owned=None), False),
    ],
)
def test_a_full_heartbeat_has_all_fields(
    heartbeat: ConsumerHeartbeatReceived, is_full: bool
) -> None:
    """These are the timeout, a subscription of either kind, and the owned partitions (rule 3.9)."""
    assert heartbeat.is_full is is_full
