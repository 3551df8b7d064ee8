"""Checks that several requests to a classic group share (rule 2.4)."""

import pytest

from coordinator.classic.guards import check_generation, is_at_older_epoch, known_member
from coordinator.group.classic_group import ClassicGroup
from coordinator.interface.errors import GroupError
from coordinator.interface.volatile_records import (
    ClassicCore,
    ClassicCoreMoved,
    ClassicGroupMemberPut,
)
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic_group_member


@pytest.fixture
def classic() -> ClassicGroup:
    """Static member a (instance i1) and dynamic member b at generation 7. Member b had an older
    epoch at the downgrade."""
    group = ClassicGroup()
    group.apply(ClassicGroupMemberPut(given_classic_group_member("a", instance_id="i1")))
    group.apply(ClassicGroupMemberPut(given_classic_group_member("b")))
    group.apply(ClassicCoreMoved(ClassicCore(generation=7, older_epochs={"b": 5})))
    return group


@pytest.mark.parametrize(
    ("member_id", "instance_id", "code"),
    [
        ("a", "i9", ErrorCode.UNKNOWN_MEMBER_ID),
        ("b", "i1", ErrorCode.FENCED_INSTANCE_ID),
        ("c", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_unknown_members_and_foreign_instances_are_refused(
    classic: ClassicGroup, member_id: str, instance_id: str | None, code: ErrorCode
) -> None:
    """The refusal echoes the member id, which the JoinGroup answer contains."""
    with pytest.raises(GroupError) as refusal:
        known_member(classic, member_id, instance_id)
    assert (refusal.value.code, refusal.value.member_id) == (code, member_id)


@pytest.mark.parametrize(("member_id", "instance_id"), [("a", "i1"), ("a", None), ("b", None)])
def test_known_members_are_accepted(
    classic: ClassicGroup, member_id: str, instance_id: str | None
) -> None:
    """A static member may omit its instance id."""
    assert known_member(classic, member_id, instance_id).member_id == member_id


def test_the_generation_must_be_the_current_one(classic: ClassicGroup) -> None:
    """Older and newer generations are refused."""
    check_generation(classic, 7)
    for wrong in (6, 8, -1):
        with pytest.raises(GroupError) as refusal:
            check_generation(classic, wrong)
        assert refusal.value.code is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("member_id", "generation", "is_at_older"), [("b", 5, True), ("b", 4, False), ("a", 5, False)]
)
def test_a_member_at_an_older_epoch_since_the_downgrade_is_recognised(
    classic: ClassicGroup, member_id: str, generation: int, is_at_older: bool
) -> None:
    """The member presents the epoch that it had at the downgrade (DEV D8)."""
    assert is_at_older_epoch(classic, member_id, generation) is is_at_older
    classic.apply(ClassicCoreMoved(ClassicCore(generation=8)))
    assert not is_at_older_epoch(classic, member_id, generation)
