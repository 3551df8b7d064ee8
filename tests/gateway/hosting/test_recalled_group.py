"""What the engine's rules say of the members of a record. `test_recall.py` has most of them."""

import pytest

from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import GroupError
from coordinator.interface.events import Leaver, OffsetCommitReceived
from coordinator.interface.records import ClassicGroupValue
from coordinator.interface.topics import Topics
from gateway.hosting.recalled_group import RecalledGroup
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic_group_member


@pytest.fixture
def group() -> RecalledGroup:
    """A classic group with a static member."""
    member = given_classic_group_member("a", {"foo": (0,)}, instance_id="one")
    value = ClassicGroupValue(
        protocol_type="consumer", generation=7, protocol="range", leader="a", members=(member,)
    )
    return RecalledGroup("orders", value, GroupConfig())


@pytest.mark.parametrize(
    ("member_id", "instance_id", "epoch", "code"),
    [
        ("a", "one", 7, ErrorCode.NONE),
        ("a", None, 7, ErrorCode.NONE),
        ("a", "one", 6, ErrorCode.ILLEGAL_GENERATION),
        ("b", "one", 7, ErrorCode.FENCED_INSTANCE_ID),
        ("b", None, 7, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_commits_are_checked_by_the_rules_of_a_classic_group(
    group: RecalledGroup, member_id: str, instance_id: str | None, epoch: int, code: ErrorCode
) -> None:
    event = OffsetCommitReceived(
        token=1,
        version=9,
        member_id=member_id,
        instance_id=instance_id,
        epoch=epoch,
        partitions=frozenset(),
    )
    assert group.check_commit(event, topics=Topics(), now_ms=1_000).error is code


def test_a_leaver_is_named_by_its_id_or_its_instance(group: RecalledGroup) -> None:
    named = [Leaver(member_id="a"), Leaver(member_id="", instance_id="one")]
    assert [group.member_id_of(leaver) for leaver in named] == ["a", "a"]
    with pytest.raises(GroupError, match="no member has the instance id two"):
        group.member_id_of(Leaver(member_id="", instance_id="two"))
