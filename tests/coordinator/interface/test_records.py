"""The durable records."""

from typing import get_args

from coordinator.interface.records import (
    AdoptionRecord,
    ClassicGenerationBegun,
    ClassicGroupMetadata,
    ClassicMemberRemoval,
    CurrentAssignment,
    DurableRecord,
    EpochCause,
    GroupConfigs,
    GroupEpoch,
    MemberMetadata,
    MemberState,
    RegularExpression,
    ReleaseRecord,
    ServedBySetting,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
    is_tombstone,
    protocol_names,
)
from tests.support.group_records import given_classic, given_classic_group_member, given_native

RECORDS: list[DurableRecord] = [
    ClassicGroupMetadata(value=None),
    GroupEpoch(epoch=1, cause=EpochCause.MEMBER_JOINED),
    TargetAssignmentMetadata(epoch=1),
    GroupConfigs(overrides={"consumer.session.timeout.ms": 50_000}),
    AdoptionRecord(value=None),
    ReleaseRecord(value=None),
    ServedBySetting(is_so=False),
    ClassicGenerationBegun(generation=None),
    *(ClassicMemberRemoval(member_id=id_, cause=None) for id_ in "ab"),
    *(MemberMetadata(member_id=id_, value=None) for id_ in "ab"),
    *(TargetAssignmentMember(member_id=id_, partitions=None) for id_ in "ab"),
    *(CurrentAssignment(member_id=id_, value=None) for id_ in "ab"),
    *(RegularExpression(regex=regex, value=None) for regex in "ab"),
]


def test_a_key_identifies_kind_and_member() -> None:
    """A compacted log keeps the newest record of each key."""
    assert len({record.key for record in RECORDS}) == len(RECORDS)
    assert {type(record) for record in RECORDS} == set(get_args(DurableRecord))
    again = GroupEpoch(epoch=9, cause=EpochCause.MEMBER_JOINED)
    assert again.key == RECORDS[1].key


def test_tombstones_are_recognised() -> None:
    """None is a tombstone, and so are configs without overrides. An empty target or epoch 0 is
    not."""
    assert [is_tombstone(record) for record in RECORDS] == [True, *3 * [False], *14 * [True]]
    assert is_tombstone(GroupConfigs(overrides={}))
    assert not is_tombstone(TargetAssignmentMember(member_id="a", partitions=frozenset()))
    assert not is_tombstone(TargetAssignmentMetadata(epoch=0))
    assert is_tombstone(TargetAssignmentMetadata(epoch=None))
    assert is_tombstone(GroupEpoch(epoch=None, cause=EpochCause.GROUP_REMOVED))


def test_member_states_have_kafkas_numbers() -> None:
    """The numbers are 0 to 2 (rule 3.7)."""
    assert [state.value for state in MemberState] == [0, 1, 2]


def test_metadata_of_an_unsupported_protocol_is_empty() -> None:
    """The metadata is also empty while no protocol is selected."""
    member = given_classic_group_member("a", metadata=b"subscription")
    assert member.metadata_for("range") == b"subscription"
    assert member.metadata_for("sticky") == b""
    assert member.metadata_for(None) == b""


def test_a_classic_member_carries_classic_metadata() -> None:
    """The metadata distinguishes it from a native member."""
    kinds = []
    for given in (given_classic("c"), given_native("n")):
        metadata = next(iter(given.records()))
        assert isinstance(metadata, MemberMetadata)
        assert metadata.value is not None
        kinds.append(metadata.value.is_classic)
    assert kinds == [True, False]


def test_a_protocol_offered_twice_has_one_name() -> None:
    """The preferred order stays."""
    assert protocol_names((("b", b"1"), ("a", b""), ("b", b"2"))) == ("b", "a")
