"""The group's coordinator in the simulated cluster: a classic coordinator that supports only static
members, enough to hold an anchor.

It answers immediately. Its treatment of static members matches that of real brokers 3.9 and 4.3.
The tests in front of real brokers are the authority; this fake is for time and failures.
"""

from dataclasses import dataclass, field
from typing import Any

from gateway.hosting.identity import CLIENT_ID, AnchorIds, AnchorJoinMetadata, Gateway
from gateway.hosting.lookup_outcome import LiveMembers, NoMembers
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribedGroup, DescribedGroupMember
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupMember, JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from kafka_codecs.offset_commit import OffsetCommitRequest
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest
from tests.simulation.subscription_reading import Reading, read


@dataclass(slots=True, kw_only=True)
class FakeGroup:
    """One group with at most one member."""

    protocol_type: str = ""
    protocol: str = ""
    metadata: bytes = b""
    assignment: bytes = b""
    instance_id: str | None = None
    member_id: str = ""
    generation: int = 0
    is_synced: bool = False
    joins: int = 0
    beats: int = 0

    def remove_member(self) -> None:
        """Remove the member as an admin would."""
        self.member_id = ""
        self.generation += 1


@dataclass(slots=True, kw_only=True)
class FakeCoordinator:
    """A coordinator of all groups that it receives requests for."""

    groups: dict[str, FakeGroup] = field(default_factory=dict)
    longest_session_ms: int = 300_000
    refuses_joins_with: int = 0

    def group(self, group_id: str) -> FakeGroup:
        """The group, created if necessary."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = FakeGroup()
        return group

    def answer(self, message: Struct) -> Any:
        """Answer one of the four requests of a classic member."""
        match message:
            case JoinGroupRequest():
                return self._join(self.group(message.group_id), message)
            case SyncGroupRequest():
                group = self.group(message.group_id)
                code = _membership_error(
                    group, message.member_id, message.group_instance_id, message.generation_id
                )
                if not code:
                    group.is_synced = True
                    group.assignment = message.assignments[0].assignment
                return SyncGroupResponse(error_code=code)
            case HeartbeatRequest():
                group = self.group(message.group_id)
                group.beats += 1
                return HeartbeatResponse(
                    error_code=_membership_error(
                        group, message.member_id, message.group_instance_id, message.generation_id
                    )
                )
            case LeaveGroupRequest():
                return self._leave(self.group(message.group_id), message)
            case _:
                raise AssertionError(f"not a request of a classic member: {message}")

    def check_commit(self, message: OffsetCommitRequest | TxnOffsetCommitRequest) -> int:
        """The error code of a commit. A group without members accepts commits that name none."""
        group = self.group(message.group_id)
        match message:
            case OffsetCommitRequest(generation_id_or_member_epoch=generation):
                pass
            case TxnOffsetCommitRequest(generation_id=generation):
                pass
        return _checked_commit(group, message.member_id, message.group_instance_id, generation)

    def code_of_commit(self, group_id: str, ids: AnchorIds | None) -> int:
        """The answer to a commit under these ids; without ids it names no member."""
        group = self.group(group_id)
        if ids is None:
            return _checked_commit(group, "", None, -1)
        return _checked_commit(group, ids.member_id, ids.instance_id, ids.generation)

    def look(self, group_id: str) -> NoMembers | LiveMembers:
        """Who is in the group, as a look at the cluster finds it."""
        group = self.group(group_id)
        if not group.member_id:
            return NoMembers()
        return LiveMembers.of(self.describe(group_id))

    def describe(self, group_id: str) -> DescribedGroup:
        """The group as DescribeGroups shows it. It must have a member."""
        group = self.group(group_id)
        return described_group(
            AnchorJoinMetadata(
                protocol_type=group.protocol_type,
                protocol=group.protocol,
                metadata=group.metadata,
                instance_id=group.instance_id or "",
            ),
            group.member_id,
            group_id=group_id,
            is_stable=group.is_synced,
        )

    def _join(self, group: FakeGroup, request: JoinGroupRequest) -> JoinGroupResponse:
        group.joins += 1
        if self.refuses_joins_with:
            return JoinGroupResponse(error_code=self.refuses_joins_with)
        if request.session_timeout_ms > self.longest_session_ms:
            return JoinGroupResponse(error_code=ErrorCode.INVALID_SESSION_TIMEOUT)
        (protocol,) = request.protocols
        if request.protocol_type == CONSUMER_PROTOCOL_TYPE:
            reading = read(protocol.metadata)
            assert reading is Reading.UNREADABLE, f"the coordinator reads a {reading.name}"
        if group.member_id and (group.protocol_type, group.protocol) != (
            request.protocol_type,
            protocol.name,
        ):
            return JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        is_replacement = bool(group.member_id) and not request.member_id and group.is_synced
        if request.member_id and request.member_id != group.member_id:
            code = ErrorCode.FENCED_INSTANCE_ID if group.member_id else ErrorCode.UNKNOWN_MEMBER_ID
            return JoinGroupResponse(error_code=code)
        group.protocol_type, group.protocol = request.protocol_type, protocol.name
        group.metadata, group.instance_id = protocol.metadata, request.group_instance_id
        if not request.member_id:
            group.member_id = f"{request.group_instance_id}-{group.joins}"
        if not is_replacement:
            group.generation += 1
            group.is_synced = False
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=group.member_id,
            skip_assignment=is_replacement,
            member_id=group.member_id,
            members=(JoinGroupMember(member_id=group.member_id, metadata=group.metadata),),
        )

    def _leave(self, group: FakeGroup, request: LeaveGroupRequest) -> LeaveGroupResponse:
        (member,) = request.members or (
            MemberIdentity(member_id=request.member_id, group_instance_id=None),
        )
        code = _membership_error(
            group, member.member_id, member.group_instance_id, group.generation
        )
        if not code:
            group.remove_member()
        return LeaveGroupResponse(
            members=(
                MemberResponse(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    error_code=code,
                ),
            )
        )


def _membership_error(
    group: FakeGroup, member_id: str, instance_id: str | None, generation: int
) -> int:
    if not group.member_id:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member_id != group.member_id:
        return (
            ErrorCode.FENCED_INSTANCE_ID
            if instance_id is not None and instance_id == group.instance_id
            else ErrorCode.UNKNOWN_MEMBER_ID
        )
    return 0 if generation == group.generation else ErrorCode.ILLEGAL_GENERATION


def _checked_commit(
    group: FakeGroup, member_id: str, instance_id: str | None, generation: int
) -> int:
    if generation < 0 and not group.member_id:
        return 0
    code = _membership_error(group, member_id, instance_id, generation)
    return code or (0 if group.is_synced else ErrorCode.REBALANCE_IN_PROGRESS)


def described_group(
    join_metadata: AnchorJoinMetadata, *member_ids: str, group_id: str, is_stable: bool = True
) -> DescribedGroup:
    """A group with members that joined as `join_metadata`, as DescribeGroups shows it: protocol and
    metadata only while it is Stable. Members without an instance id are consumers, whose client ids
    are their member ids."""
    return DescribedGroup(
        group_id=group_id,
        group_state="Stable" if is_stable else "PreparingRebalance",
        protocol_type=join_metadata.protocol_type,
        protocol_data=join_metadata.protocol if is_stable else "",
        members=tuple(
            DescribedGroupMember(
                member_id=member_id,
                group_instance_id=join_metadata.instance_id or None,
                client_id=CLIENT_ID if join_metadata.instance_id else member_id,
                client_host="/10.0.0.7",
                member_metadata=join_metadata.metadata if is_stable else b"",
                member_assignment=b"",
            )
            for member_id in member_ids
        ),
    )


def anchored_group(
    log_id: str, *run_ids: int, group_id: str, is_stable: bool = True
) -> LiveMembers:
    """What a look finds in a group with the anchor of this run, or with those of several."""
    join_metadata = Gateway(log_id=log_id, run_id=run_ids[0]).join_metadata
    member_ids = [f"{join_metadata.instance_id}-{run_id}" for run_id in run_ids]
    return LiveMembers.of(
        described_group(join_metadata, *member_ids, group_id=group_id, is_stable=is_stable)
    )
