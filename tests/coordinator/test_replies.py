"""What the engine answers."""

from typing import get_args

import pytest

from coordinator.replies import HeartbeatReply, JoinGroupReply, Reply, SyncGroupReply
from kafka_codecs.error_codes import ErrorCode


@pytest.mark.parametrize("kind", get_args(Reply))
def test_every_reply_has_a_code_and_a_reason(kind: type[Reply]) -> None:
    """The driver logs a refusal without knowing which kind it is; success has no reason."""
    reply = kind()
    assert (reply.error, reply.why) == (ErrorCode.NONE, "")


def test_a_join_that_failed_has_no_generation() -> None:
    """-1, Kafka's default (rule 1.2)."""
    assert JoinGroupReply(error=ErrorCode.UNKNOWN_MEMBER_ID).generation == -1


def test_a_sync_during_a_load_gets_rebalance_in_progress() -> None:
    """The generation may be lost; some clients take any other answer to be fatal."""
    reply = SyncGroupReply.refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")
    assert (reply.error, reply.why) == (ErrorCode.REBALANCE_IN_PROGRESS, "loading")


def test_a_heartbeat_during_a_load_succeeds() -> None:
    """So that nobody gives up (rule 2.7): aiokafka takes that error to be the end."""
    reply = HeartbeatReply.refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")
    assert reply == HeartbeatReply()
    fenced = HeartbeatReply.refusal(ErrorCode.FENCED_INSTANCE_ID, "replaced")
    assert (fenced.error, fenced.why) == (ErrorCode.FENCED_INSTANCE_ID, "replaced")
