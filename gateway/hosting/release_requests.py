"""The requests of a release to the group's coordinator, all under the anchor's member id."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.hosting.adoption_requests import ANCHOR_SESSION_MS, NOTHING
from gateway.hosting.identity import AnchorIds, Guise
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.join_group import JoinGroupProtocol, JoinGroupRequest
from kafka_codecs.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_codecs.sync_group import SyncGroupAssignment, SyncGroupRequest

REASON = "groupferry releases this group"


@dataclass(frozen=True, slots=True)
class ReleaseRequests:
    """The requests about one group."""

    group_id: str
    guise: Guise
    ids: AnchorIds

    def open(self, names: Sequence[str]) -> JoinGroupRequest:
        """The anchor rejoins, and offers the protocols of the members after its own. Its bytes
        under each are no subscription, so no native consumer converts the group meanwhile."""
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=ANCHOR_SESSION_MS,
            rebalance_timeout_ms=ANCHOR_SESSION_MS,
            member_id=self.ids.member_id,
            group_instance_id=self.ids.instance_id,
            protocol_type=self.guise.protocol_type,
            protocols=tuple(
                JoinGroupProtocol(name=name, metadata=self.guise.metadata)
                for name in (self.guise.protocol, *names)
            ),
            reason=REASON,
        )

    def sync(self, generation: int, protocol: str | None) -> SyncGroupRequest:
        """The anchor ends that round, in which it is alone."""
        member_id = self.ids.member_id
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=self.ids.instance_id,
            protocol_type=self.guise.protocol_type,
            protocol_name=protocol,
            assignments=(SyncGroupAssignment(member_id=member_id, assignment=NOTHING),),
        )

    def describe(self) -> DescribeGroupsRequest:
        """Who has come?"""
        return DescribeGroupsRequest(groups=(self.group_id,))

    def leave(self) -> LeaveGroupRequest:
        """The anchor leaves. An anchor that has taken its place since stays."""
        member = MemberIdentity(
            member_id=self.ids.member_id, group_instance_id=self.ids.instance_id, reason=REASON
        )
        return LeaveGroupRequest(group_id=self.group_id, members=(member,))
