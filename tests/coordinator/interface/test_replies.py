"""The engine's replies."""

from typing import get_args

import pytest

from coordinator.interface.replies import HeartbeatReply, JoinGroupReply, Reply, SyncGroupReply
from kafka_codecs.error_codes import ErrorCode


@pytest.mark.parametrize("kind", get_args(Reply))
def test_every_reply_has_a_code_and_a_reason(kind: type[Reply]) -> None:
    """The driver logs a refusal without knowing its type. A success has no reason."""
    reply = kind()
    assert (reply.error, reply.reason) == (ErrorCode.NONE, "")


def test_a_failed_join_has_no_generation() -> None:
    """The generation is -1, Kafka's default (rule 1.2)."""
    assert JoinGroupReply(error=ErrorCode.UNKNOWN_MEMBER_ID).generation == -1


def test_a_sync_during_a_load_gets_rebalance_in_progress() -> None:
    """The generation may be lost, and other errors are fatal to some clients."""
    reply = SyncGroupReply.refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")
    assert (reply.error, reply.reason) == (ErrorCode.REBALANCE_IN_PROGRESS, "loading")


def test_a_heartbeat_during_a_load_succeeds() -> None:
    """The error would be fatal to aiokafka (rule 2.7)."""
    reply = HeartbeatReply.refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")
    assert reply == HeartbeatReply()
    fenced = HeartbeatReply.refusal(ErrorCode.FENCED_INSTANCE_ID, "replaced")
    assert (fenced.error, fenced.reason) == (ErrorCode.FENCED_INSTANCE_ID, "replaced")
