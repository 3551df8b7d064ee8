"""Groups as their logs restore them, so that a scenario begins where it becomes interesting."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coordinator.interface.records import (
    Assignment,
    ClassicGroupMember,
    ClassicGroupMetadata,
    ClassicGroupValue,
    ClassicMetadata,
    ClientAssignor,
    CurrentAssignment,
    DurableRecord,
    EpochCause,
    GroupEpoch,
    Member,
    MemberMetadata,
    MemberState,
    Protocols,
    RegularExpression,
    ResolvedRegex,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from coordinator.interface.topics import Topics
from tests.support.group_values import Owned, embedded_assignment, partitions, subscription

CLIENT_ID = "client"
CLIENT_HOST = "/127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenMember:
    """A member of a consumer group. Its target equals its assignment unless stated."""

    member_id: str
    epoch: int = 10
    previous_epoch: int | None = None
    topics: Iterable[str] = ("foo",)
    regex: str = ""
    assigned: Owned = field(default_factory=dict)
    target: Owned | None = None
    has_target: bool = True
    pending: Owned = field(default_factory=dict)
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    client_host: str = CLIENT_HOST
    rebalance_timeout_ms: int = 10_000
    client_assignors: tuple[ClientAssignor, ...] = ()
    classic: ClassicMetadata | None = None

    def records(self) -> Iterable[DurableRecord]:
        member = Member(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=CLIENT_ID,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            topic_names=tuple(sorted(self.topics)),
            topic_regex=self.regex,
            client_assignors=self.client_assignors,
            classic=self.classic,
        )
        yield MemberMetadata(member_id=self.member_id, value=member)
        if self.has_target:
            target = self.assigned if self.target is None else self.target
            yield TargetAssignmentMember(member_id=self.member_id, partitions=partitions(target))
        current = Assignment(
            member_epoch=self.epoch,
            previous_epoch=self.epoch if self.previous_epoch is None else self.previous_epoch,
            state=self.state,
            assigned=dict.fromkeys(partitions(self.assigned), self.epoch),
            pending_revocation=dict.fromkeys(partitions(self.pending), self.epoch),
        )
        yield CurrentAssignment(member_id=self.member_id, value=current)


def given_native(member_id: str, **how: object) -> GivenMember:
    """A native member."""
    return GivenMember(member_id=member_id, **how)  # type: ignore[arg-type]


def given_classic(
    member_id: str,
    *,
    topics: Iterable[str] = ("foo",),
    protocol: str = "range",
    protocols: Protocols | None = None,
    embedded_version: int = 1,
    session_timeout_ms: int = 10_000,
    **how: object,
) -> GivenMember:
    """A classic member of a consumer group."""
    offered = protocols or ((protocol, subscription(topics, version=embedded_version)),)
    return GivenMember(
        member_id=member_id,
        topics=topics,
        classic=ClassicMetadata(session_timeout_ms=session_timeout_ms, protocols=offered),
        **how,  # type: ignore[arg-type]
    )


def consumer_group(
    *members: GivenMember,
    epoch: int,
    assignment_epoch: int | None,
    timestamp_ms: int,
    image: Topics,
    regexes: Mapping[str, Iterable[str]],
) -> list[DurableRecord]:
    """The log of a consumer group. Without an assignment epoch the group never had a target.
    `regexes` has the topics of regular expressions that were resolved long ago."""
    matched = {regex: frozenset(names) for regex, names in regexes.items()}
    subscribed = {name for member in members for name in member.topics}.union(*matched.values())
    records = [record for member in members for record in member.records()]
    for regex, names in matched.items():
        resolved = ResolvedRegex(topics=names, version=image.names_version, timestamp_ms=1)
        records.append(RegularExpression(regex=regex, value=resolved))
    records.append(
        GroupEpoch(
            epoch=epoch,
            metadata_hash=image.metadata_hash(subscribed),
            cause=EpochCause.SUBSCRIPTION_CHANGED,
        )
    )
    if assignment_epoch is not None:
        records.append(TargetAssignmentMetadata(epoch=assignment_epoch, timestamp_ms=timestamp_ms))
    return records


def given_classic_group_member(
    member_id: str,
    owned: Owned | None = None,
    *,
    topics: Iterable[str] = ("foo",),
    instance_id: str | None = None,
    protocol: str = "range",
    metadata: bytes | None = None,
    assignment: bytes | None = None,
) -> ClassicGroupMember:
    """A member of a classic group with its assignment; None if it never synced."""
    if assignment is None:
        assignment = b"" if owned is None else embedded_assignment(owned)
    return ClassicGroupMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id=CLIENT_ID,
        client_host=CLIENT_HOST,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocols=((protocol, subscription(topics) if metadata is None else metadata),),
        assignment=assignment,
    )


def classic_group(
    *members: ClassicGroupMember, generation: int, protocol_type: str = "consumer"
) -> list[DurableRecord]:
    """The log of a Stable classic group, led by its first member."""
    value = ClassicGroupValue(
        protocol_type=protocol_type,
        generation=generation,
        protocol=members[0].protocols[0][0],
        leader=members[0].member_id,
        members=members,
    )
    return [ClassicGroupMetadata(value=value)]
