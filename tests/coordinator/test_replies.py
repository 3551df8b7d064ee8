"""What the engine answers."""

from typing import get_args

import pytest

from coordinator.errors import ErrorCode
from coordinator.replies import JoinGroupReply, Reply


@pytest.mark.parametrize("kind", get_args(Reply))
def test_every_reply_has_a_code_and_a_reason(kind: type[Reply]) -> None:
    """The driver logs a refusal without knowing which kind it is; success has no reason."""
    reply = kind()
    assert (reply.error, reply.why) == (ErrorCode.NONE, "")


def test_a_join_that_failed_has_no_generation() -> None:
    """-1, Kafka's default (spec 1.2)."""
    assert JoinGroupReply(error=ErrorCode.UNKNOWN_MEMBER_ID).generation == -1
