"""Durable records for the tests of the state logs: an example of each kind, and a strategy for
any."""

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from hypothesis import strategies as st

from coordinator.interface.records import (
    AdoptionRecord,
    AdoptionState,
    Assignment,
    AssignmentMetadata,
    ClassicGenerationBegun,
    ClassicGroupMember,
    ClassicGroupMetadata,
    ClassicGroupValue,
    ClassicMemberRemoval,
    ClassicMetadata,
    ClientAssignor,
    CurrentAssignment,
    DurableRecord,
    EpochCause,
    GroupConfigs,
    GroupEpoch,
    Member,
    MemberMetadata,
    MemberState,
    RegularExpression,
    RemovalCause,
    ResolvedRegex,
    ServedBySetting,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from coordinator.interface.topics import Partition

GROUP = "orders"
FOO, BAR = UUID(int=1 << 100), UUID("0198c0de-0000-7000-8000-00000000002a")
SUBSCRIPTION = bytes.fromhex("0001000000010003666f6f0000000000000000")

_CLASSIC_MEMBER = ClassicGroupMember(
    member_id="m-1",
    client_id="client",
    client_host="/10.0.0.1",
    session_timeout_ms=45_000,
    rebalance_timeout_ms=300_000,
    protocols=(("range", SUBSCRIPTION),),
)
_CLASSIC_GROUP = ClassicGroupValue(
    protocol_type="consumer",
    generation=7,
    protocol="range",
    leader="m-1",
    members=(
        replace(
            _CLASSIC_MEMBER,
            client_id="client-1",
            protocols=(("range", SUBSCRIPTION), ("cooperative-sticky", b"\x00\x01\xff")),
            assignment=b"\x00\x01\x00\x00\x00\x00",
        ),
        ClassicGroupMember(
            member_id="m-2",
            instance_id="instance-2",
            client_id="",
            client_host="/10.0.0.2",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocols=(("sticky", b""), ("range", b"")),
        ),
    ),
    unwatched_hash=4_611_686_018_427_387_905,
)
_ADOPTED_MEMBER = replace(
    _CLASSIC_MEMBER,
    instance_id="instance-1",
    client_id="naïve",
    client_host="/127.0.0.1",
    protocols=(("range", b"subscription"),),
    assignment=b"assignment",
)
_MEMBER = Member(
    member_id="m-3",
    client_id="client-3",
    client_host="/127.0.0.1",
    rebalance_timeout_ms=300_000,
    topic_names=("foo",),
)
RECORDS: Mapping[str, DurableRecord] = {
    "classic_group": ClassicGroupMetadata(value=_CLASSIC_GROUP),
    "lagging_group": ClassicGroupMetadata(
        value=replace(
            _CLASSIC_GROUP,
            generation=9,
            members=(_CLASSIC_MEMBER, replace(_CLASSIC_MEMBER, member_id="m-2")),
            unwatched_hash=None,
            older_epochs={"m-2": 5},
        )
    ),
    "classic_group_empty": ClassicGroupMetadata(
        value=ClassicGroupValue(protocol_type=None, generation=8, protocol=None, leader=None)
    ),
    "classic_member_removal": ClassicMemberRemoval(member_id="m-1", cause=RemovalCause.LEFT),
    "classic_generation_begun": ClassicGenerationBegun(generation=9),
    "served_by_setting": ServedBySetting(is_so=True),
    "group_adoption": AdoptionRecord(
        value=AdoptionState(
            group=replace(_CLASSIC_GROUP, members=(_ADOPTED_MEMBER,), unwatched_hash=None),
            lock_generation=9,
        )
    ),
    "group_epoch": GroupEpoch(
        epoch=12, metadata_hash=9_000_000_000_000_000_001, cause=EpochCause.MEMBER_JOINED
    ),
    "native_member": MemberMetadata(
        member_id="JTKzR0iOSOm3oWDSQnD8bw",
        value=replace(
            _MEMBER,
            member_id="JTKzR0iOSOm3oWDSQnD8bw",
            instance_id="instance-1",
            rack_id="rack-a",
            client_id="naïve",
            topic_names=("bar", "foo"),
            topic_regex="ba.*",
            server_assignor="range",
        ),
    ),
    "computing_member": MemberMetadata(
        member_id="m-4",
        value=replace(
            _MEMBER,
            member_id="m-4",
            client_id="client-4",
            client_assignors=(
                ClientAssignor(
                    name="weighted",
                    minimum_version=-1,
                    maximum_version=3,
                    reason=-2,
                    version=3,
                    metadata=b"weights",
                ),
                ClientAssignor(name="plain", minimum_version=0, maximum_version=0, version=0),
            ),
        ),
    ),
    "classic_member": MemberMetadata(
        member_id="m-3",
        value=replace(
            _MEMBER,
            classic=ClassicMetadata(
                session_timeout_ms=45_000,
                protocols=(("cooperative-sticky", SUBSCRIPTION), ("range", SUBSCRIPTION)),
            ),
        ),
    ),
    "target_metadata": TargetAssignmentMetadata(
        epoch=12, timestamp_ms=1_767_225_600_000, assignor="uniform"
    ),
    "target_member": TargetAssignmentMember(
        member_id="m-3", partitions=frozenset({Partition(FOO, 0), Partition(BAR, 70_000)})
    ),
    "computed_target_member": TargetAssignmentMember(
        member_id="m-4",
        partitions=frozenset({Partition(FOO, 1)}),
        metadata=AssignmentMetadata(version=3, metadata=b"tasks"),
    ),
    "current_assignment": CurrentAssignment(
        member_id="m-3",
        value=Assignment(
            member_epoch=12,
            previous_epoch=11,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned={Partition(FOO, 0): 3, Partition(FOO, 2): 12, Partition(BAR, 1): 5},
            pending_revocation={Partition(BAR, 0): 2},
        ),
    ),
    "regular_expression": RegularExpression(
        regex="ba.*",
        value=ResolvedRegex(
            topics=frozenset({"bar", "baz"}), version=33, timestamp_ms=1_767_225_600_000
        ),
    ),
    "group_configs": GroupConfigs(
        overrides={"consumer.session.timeout.ms": 46_000, "name.of.a.later.version": -1}
    ),
}
"""An example of each kind of record with all fields set, by a name that is a valid file name."""

_LATER = {
    "classic_member_removal",
    "group_adoption",
    "classic_generation_begun",
    "served_by_setting",
    "computing_member",
    "computed_target_member",
}
FIRST_VERSION = tuple(record for name, record in RECORDS.items() if name not in _LATER)
"""The examples that the first version of the format had."""

TOMBSTONES: Mapping[str, DurableRecord] = {
    "classic_group": ClassicGroupMetadata(value=None),
    "classic_member_removal": ClassicMemberRemoval(member_id="m-1", cause=None),
    "classic_generation_begun": ClassicGenerationBegun(generation=None),
    "group_adoption": AdoptionRecord(value=None),
    "served_by_setting": ServedBySetting(is_so=False),
    "group_epoch": GroupEpoch(epoch=None, cause=EpochCause.GROUP_REMOVED),
    "member": MemberMetadata(member_id="m-3", value=None, cause=RemovalCause.LEFT),
    "target_metadata": TargetAssignmentMetadata(epoch=None),
    "target_member": TargetAssignmentMember(member_id="m-3", partitions=None),
    "current_assignment": CurrentAssignment(member_id="m-3", value=None),
    "regular_expression": RegularExpression(regex="ba.*", value=None),
    "group_configs": GroupConfigs(overrides={}),
}


def _int(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_TEXT = st.text(max_size=8)
_MAYBE = st.none() | _TEXT
_HASHES = st.integers(0, 2**63 - 1)
_PROTOCOLS = st.lists(st.tuples(_TEXT, st.binary(max_size=8)), max_size=3).map(tuple)
_PARTITIONS = st.builds(Partition, st.sampled_from([FOO, BAR]), st.integers(0, 2**31 - 1))
_HELD = st.dictionaries(_PARTITIONS, _int(32), max_size=4)
_NAMES = st.lists(_TEXT, max_size=3).map(lambda names: tuple(sorted(names)))

_GENERIC_MEMBERS = st.builds(
    ClassicGroupMember,
    member_id=_TEXT,
    instance_id=_MAYBE,
    client_id=_TEXT,
    client_host=_TEXT,
    session_timeout_ms=_int(32),
    rebalance_timeout_ms=_int(32),
    protocols=_PROTOCOLS,
    assignment=st.binary(max_size=8),
)
_GENERIC_GROUPS = st.builds(
    ClassicGroupValue,
    protocol_type=st.none() | st.text(min_size=1, max_size=8),
    generation=_int(32),
    protocol=_MAYBE,
    leader=_MAYBE,
    members=st.lists(_GENERIC_MEMBERS, max_size=3).map(tuple),
    unwatched_hash=st.none() | _HASHES,
)
_CLIENT_ASSIGNORS = st.builds(
    ClientAssignor,
    name=_TEXT,
    minimum_version=_int(16),
    maximum_version=_int(16),
    reason=_int(8),
    version=_int(16),
    metadata=st.binary(max_size=8),
)
_SAID = st.builds(AssignmentMetadata, version=_int(16), metadata=st.binary(max_size=8))
_CLASSIC = st.builds(ClassicMetadata, session_timeout_ms=_int(32), protocols=_PROTOCOLS)


@st.composite
def _members(draw: st.DrawFn) -> MemberMetadata:
    member = draw(
        st.builds(
            Member,
            member_id=_TEXT,
            instance_id=_MAYBE,
            rack_id=_MAYBE,
            client_id=_TEXT,
            client_host=_TEXT,
            rebalance_timeout_ms=_int(32),
            topic_names=_NAMES,
            topic_regex=_TEXT,
            server_assignor=_MAYBE,
            client_assignors=st.lists(_CLIENT_ASSIGNORS, max_size=2).map(tuple),
            classic=st.none() | _CLASSIC,
        )
    )
    return MemberMetadata(member_id=member.member_id, value=member)


@st.composite
def _groups(draw: st.DrawFn) -> ClassicGroupValue:
    """A group, some members of which lag."""
    group = draw(_GENERIC_GROUPS)
    ids = st.sampled_from([member.member_id for member in group.members] or [""])
    lagging = draw(st.dictionaries(ids, st.integers(0, 2**31 - 1), max_size=2))
    known = {member.member_id for member in group.members}
    return replace(group, older_epochs={id_: n for id_, n in lagging.items() if id_ in known})


ANY_RECORD: st.SearchStrategy[DurableRecord] = st.one_of(
    st.builds(ClassicGroupMetadata, value=_groups()),
    st.builds(ClassicGenerationBegun, generation=_int(32)),
    st.builds(ServedBySetting, is_so=st.just(value=True)),
    st.builds(ClassicMemberRemoval, member_id=_TEXT, cause=st.sampled_from(RemovalCause)),
    st.builds(GroupEpoch, epoch=_int(32), metadata_hash=_HASHES, cause=st.sampled_from(EpochCause)),
    _members(),
    st.builds(TargetAssignmentMetadata, epoch=_int(32), timestamp_ms=_int(64), assignor=_MAYBE),
    st.builds(
        TargetAssignmentMember,
        member_id=_TEXT,
        partitions=st.frozensets(_PARTITIONS, max_size=4),
        metadata=st.none() | _SAID,
    ),
    st.builds(
        CurrentAssignment,
        member_id=_TEXT,
        value=st.builds(
            Assignment,
            member_epoch=_int(32),
            previous_epoch=_int(32),
            state=st.sampled_from(MemberState),
            assigned=_HELD,
            pending_revocation=_HELD,
        ),
    ),
    st.builds(
        RegularExpression,
        regex=_TEXT,
        value=st.builds(
            ResolvedRegex,
            topics=st.frozensets(_TEXT, max_size=3),
            version=_int(64),
            timestamp_ms=_int(64),
        ),
    ),
    st.builds(
        GroupConfigs,
        overrides=st.dictionaries(_TEXT, _int(64), min_size=1, max_size=3),
    ),
    st.sampled_from(list(TOMBSTONES.values())),
)
"""Any record, including those that no engine would write."""
