"""The sender of a classic request to a consumer group (rule 5.6 rows 3 to 6)."""

import pytest

from coordinator.group.step_builder import StepBuilder
from coordinator.interface.errors import GroupError
from coordinator.mixed.guards import classic_member
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript


@pytest.mark.parametrize(
    ("member_id", "instance_id", "generation", "code"),
    [
        ("c1", "i1", 10, ErrorCode.NONE),
        ("c1", None, 10, ErrorCode.NONE),
        ("c9", None, 10, ErrorCode.UNKNOWN_MEMBER_ID),
        ("c1", "i9", 10, ErrorCode.UNKNOWN_MEMBER_ID),
        ("n1", "i1", 10, ErrorCode.FENCED_INSTANCE_ID),
        ("n1", None, 10, ErrorCode.UNKNOWN_MEMBER_ID),
        ("c1", None, 9, ErrorCode.ILLEGAL_GENERATION),
        ("c1", None, 11, ErrorCode.ILLEGAL_GENERATION),
        ("n1", None, 9, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_the_sender_must_be_a_classic_member(
    group: GroupScript, member_id: str, instance_id: str | None, generation: int, code: ErrorCode
) -> None:
    """The instance is checked first, then the member, then the generation."""
    group.given_consumer_group(given_classic("c1", instance_id="i1"), given_native("n1"))
    step = StepBuilder(group.engine.state, config=group.config, topics=group.topics, now_ms=0)
    if code is ErrorCode.NONE:
        member = classic_member(step, member_id, instance_id, generation)
        assert member.member_id == member_id
    else:
        with pytest.raises(GroupError) as refusal:
            classic_member(step, member_id, instance_id, generation)
        assert refusal.value.code is code
