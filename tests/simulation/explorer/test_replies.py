"""What a consumer hears."""

import pytest

from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    HeartbeatReply,
    JoinGroupReply,
    SyncGroupReply,
)
from gateway.hosting.answers import GroupApi, RefusalReason
from gateway.hosting.calls import Forwarded, Refused, Unanswerable
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.explorer.promises import BrokenPromiseError
from tests.simulation.explorer.replies import grants, reply_to


def test_a_refusal_becomes_the_code_of_its_situation() -> None:
    reply = reply_to(GroupApi.SYNC, Refused(RefusalReason.LOADING, "loads"))
    assert reply == SyncGroupReply(error=ErrorCode.REBALANCE_IN_PROGRESS, reason="loads")


def test_the_cluster_does_not_know_the_members_of_a_hosted_group() -> None:
    reply = reply_to(GroupApi.HEARTBEAT, Forwarded())
    assert reply == HeartbeatReply(error=ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_bug_breaks_a_promise() -> None:
    with pytest.raises(BrokenPromiseError):
        reply_to(GroupApi.JOIN, Unanswerable())


def test_what_gives_partitions_away() -> None:
    assert grants(JoinGroupReply())
    assert grants(SyncGroupReply())
    assert grants(ConsumerHeartbeatReply(assignment=frozenset()))
    assert not grants(ConsumerHeartbeatReply())
    assert not grants(HeartbeatReply())
    assert not grants(JoinGroupReply(error=ErrorCode.MEMBER_ID_REQUIRED))
