"""Refusals and internal errors."""

import pytest

from coordinator.interface.errors import GroupError, InvariantError, ensure
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.errors import WireError


def test_a_refusal_says_its_code_and_why() -> None:
    """`member_id` is echoed by a JoinGroup answer. It is empty by default."""
    refusal = GroupError(ErrorCode.ILLEGAL_GENERATION, "generation 3 is not the current one")
    assert str(refusal) == "ILLEGAL_GENERATION: generation 3 is not the current one"
    assert (refusal.code, refusal.member_id) == (22, "")


def test_an_internal_error_is_no_refusal() -> None:
    """No answer may carry it as a code."""
    ensure(condition=True, broken_rule="never seen")
    with pytest.raises(InvariantError, match="two owners"):
        ensure(condition=False, broken_rule="two owners")
    assert not issubclass(InvariantError, GroupError | WireError)
