"""The members whom an adoption concerns, and the requests about them.

Only two members ever join: the leader's, under the id that its client has, and the anchor. What
they offer is no readable subscription, so that no native consumer can convert the group.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property

from coordinator.interface.events import HeartbeatReceived, Request
from coordinator.interface.records import ClassicGroupMember, ClassicGroupValue, protocol_names
from gateway.hosting.anchor import SESSION_TIMEOUTS_MS
from gateway.hosting.identity import AnchorIds, AnchorJoinMetadata
from gateway.hosting.upstream_member import UpstreamMember
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

LOCK_MARGIN_MS = 10_000
"""How much longer the leader's member stays than the members may believe that they own something:
longer than the adoption takes, and than one of its heartbeats can be late."""
REASON = "groupferry adopts this group"


@dataclass(frozen=True)
class Adoptees:
    """The members of one group, as it was when its adoption began."""

    group_id: str
    group: ClassicGroupValue
    join_metadata: AnchorJoinMetadata

    @cached_property
    def leader(self) -> ClassicGroupMember:
        """The member that stays until the anchor has come."""
        members = self.group.members
        return next(member for member in members if member.member_id == self.group.leader)

    @cached_property
    def others(self) -> tuple[ClassicGroupMember, ...]:
        """All members but the leader's."""
        members = self.group.members
        return tuple(member for member in members if member.member_id != self.group.leader)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The protocols that the leader's member has in common with the others."""
        return protocol_names(self.leader.protocols)

    @cached_property
    def by_id(self) -> Mapping[str, ClassicGroupMember]:
        """The members by their ids."""
        return {member.member_id: member for member in self.group.members}

    def is_current(self, event: Request | None) -> bool:
        """Whether it is the heartbeat of a member in the group's generation."""
        if not isinstance(event, HeartbeatReceived) or event.generation != self.group.generation:
            return False
        member = self.by_id.get(event.member_id)
        return member is not None and event.instance_id in (None, member.instance_id)

    def leaders_ids(self, generation: int) -> AnchorIds:
        """The ids of the leader's member in a generation."""
        return AnchorIds(member_id=self.group.leader or "", generation=generation, instance_id="")

    def leaders_member(self) -> UpstreamMember:
        """The leader's member, as the gateway has it rejoin."""
        members = self.group.members
        rebalance_ms = max((member.rebalance_timeout_ms for member in members), default=0)
        return UpstreamMember(
            self.group_id,
            self.join_metadata,
            reason=REASON,
            session_timeouts_ms=(guards_session_ms(self.group),),
            rebalance_timeout_ms=rebalance_ms + LOCK_MARGIN_MS,
            is_static=False,
        )

    def anchor(self) -> UpstreamMember:
        """The anchor that takes the group from the leader's member."""
        return UpstreamMember(
            self.group_id,
            self.join_metadata,
            reason=REASON,
            session_timeouts_ms=SESSION_TIMEOUTS_MS,
        )

    def beat(self, member: ClassicGroupMember) -> HeartbeatRequest:
        """A heartbeat of a member."""
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.group.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
        )

    def leave(
        self, members: Iterable[ClassicGroupMember], *, with_anchor: bool = False
    ) -> LeaveGroupRequest:
        """Members leave, and the anchor too if it is there."""
        leavers = [
            MemberIdentity(
                member_id=member.member_id, group_instance_id=member.instance_id, reason=REASON
            )
            for member in members
        ]
        if with_anchor:
            leavers.append(
                MemberIdentity(member_id="", group_instance_id=self.join_metadata.instance_id)
            )
        return LeaveGroupRequest(group_id=self.group_id, members=tuple(leavers))


def guards_session_ms(group: ClassicGroupValue) -> int:
    """The session timeout of the leader's member while it guards the group."""
    return max((m.session_timeout_ms for m in group.members), default=0) + LOCK_MARGIN_MS


def have_left(answer: LeaveGroupResponse) -> bool:
    """Whether none of the members that were named is there any more."""
    codes: Set[int] = {answer.error_code, *(member.error_code for member in answer.members)}
    return codes <= {ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID}
