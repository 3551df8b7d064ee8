"""The requests of an adoption to the group's coordinator.

Only two members ever join: the leader's, under the id that its client has, and the anchor. What
they offer is no readable subscription, so that no native consumer can convert the group.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from coordinator.interface.records import ClassicGroupMember, ClassicGroupValue, protocol_names
from gateway.hosting.identity import AnchorIds, Guise
from kafka_codecs.consumer_protocol import VERSIONS, Assignment, encode_assignment
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kafka_codecs.sync_group import SyncGroupAssignment, SyncGroupRequest

LOCK_MARGIN_MS = 10_000
"""How much longer the leader's member stays than the members may believe that they own something:
longer than the adoption takes, and than one of its heartbeats can be late."""
ANCHOR_SESSION_MS = 60_000
BACKOFF_MS = 500
GONE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND)
"""Answers about a member that is no longer in the group."""
REASON = "groupferry adopts this group"
NOTHING = encode_assignment(Assignment(assigned_partitions=()), VERSIONS[0])
"""The assignment of an outsider. Clients do not understand zero bytes."""


@dataclass(frozen=True)
class Requests:
    """The requests about one group, as it was when its adoption began."""

    group_id: str
    group: ClassicGroupValue
    guise: Guise

    @cached_property
    def leader(self) -> ClassicGroupMember:
        """The member that stays until the anchor has come."""
        return next(each for each in self.group.members if each.member_id == self.group.leader)

    @cached_property
    def others(self) -> tuple[ClassicGroupMember, ...]:
        """All members but the leader's."""
        return tuple(each for each in self.group.members if each.member_id != self.group.leader)

    def rejoin(self, *, is_locked: bool) -> JoinGroupRequest:
        """The leader's member joins again: with the private protocol first and then its own, in
        common with the other members; locked, with the private one only."""
        names = () if is_locked else protocol_names(self.leader.protocols)
        members = self.group.members
        session_ms = max(member.session_timeout_ms for member in members)
        rebalance_ms = max(member.rebalance_timeout_ms for member in members)
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=session_ms + LOCK_MARGIN_MS,
            rebalance_timeout_ms=max(session_ms, rebalance_ms) + LOCK_MARGIN_MS,
            member_id=self.leader.member_id,
            protocol_type=self.guise.protocol_type,
            protocols=tuple(
                JoinGroupProtocol(name=name, metadata=self.guise.metadata)
                for name in (self.guise.protocol, *names)
            ),
            reason=REASON,
        )

    def join_anchor(self, member_id: str) -> JoinGroupRequest:
        """The anchor joins; without a member id it takes the place of an earlier one."""
        protocol = JoinGroupProtocol(name=self.guise.protocol, metadata=self.guise.metadata)
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=ANCHOR_SESSION_MS,
            rebalance_timeout_ms=ANCHOR_SESSION_MS,
            member_id=member_id,
            group_instance_id=self.guise.instance_id,
            protocol_type=self.guise.protocol_type,
            protocols=(protocol,),
            reason=REASON,
        )

    def sync_anchor(self, member_id: str, generation: int) -> SyncGroupRequest:
        """The anchor ends its generation's rebalance."""
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=self.guise.instance_id,
            protocol_type=self.guise.protocol_type,
            protocol_name=self.guise.protocol,
            assignments=(SyncGroupAssignment(member_id=member_id, assignment=NOTHING),),
        )

    def sync(self, generation: int, protocol: str, outsiders: Iterable[str]) -> SyncGroupRequest:
        """The leader's member gives nothing to anybody."""
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=generation,
            member_id=self.leader.member_id,
            protocol_type=self.guise.protocol_type,
            protocol_name=protocol,
            assignments=tuple(
                SyncGroupAssignment(member_id=member_id, assignment=NOTHING)
                for member_id in outsiders
            ),
        )

    def beat(self, member: ClassicGroupMember, generation: int) -> HeartbeatRequest:
        """A heartbeat of a member."""
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
        )

    def beat_anchor(self, ids: AnchorIds) -> HeartbeatRequest:
        """A heartbeat of the anchor."""
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=ids.generation,
            member_id=ids.member_id,
            group_instance_id=ids.instance_id,
        )

    def leave(
        self, members: Sequence[ClassicGroupMember], *, with_anchor: bool = False
    ) -> LeaveGroupRequest:
        """Members leave, and the anchor too if it is there."""
        leavers = [
            MemberIdentity(
                member_id=each.member_id, group_instance_id=each.instance_id, reason=REASON
            )
            for each in members
        ]
        if with_anchor:
            leavers.append(MemberIdentity(member_id="", group_instance_id=self.guise.instance_id))
        return LeaveGroupRequest(group_id=self.group_id, members=tuple(leavers))


def codes_of(answer: LeaveGroupResponse) -> Set[int]:
    """The error codes of the request and of its members."""
    return {answer.error_code, *(member.error_code for member in answer.members)}


def have_left(answer: LeaveGroupResponse) -> bool:
    """Whether none of the members that were named is there any more."""
    return codes_of(answer) <= {ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID}


def is_alone(answer: JoinGroupResponse) -> bool:
    """Whether the member that joined leads a round without any other."""
    there = [member.member_id for member in answer.members]
    return answer.leader == answer.member_id and there == [answer.member_id]
