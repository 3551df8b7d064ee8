"""The group that is recalled, as the record of the move has it."""

from collections.abc import Mapping
from dataclasses import replace

from coordinator.classic.guards import known_leaver
from coordinator.engine import GroupEngine
from coordinator.group.classic_group import ClassicGroup
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import GroupError
from coordinator.interface.events import Leaver, OffsetCommitReceived
from coordinator.interface.records import (
    ClassicGroupMember,
    ClassicGroupMetadata,
    ClassicGroupValue,
)
from coordinator.interface.replies import OffsetVerdict
from coordinator.interface.topics import Topics
from kafka_codecs.error_codes import ErrorCode


class RecalledGroup:
    """Members that may still hold partitions. An engine of its own has the group as it was, so that
    the engine's rules decide what its members may do."""

    def __init__(self, group_id: str, group: ClassicGroupValue, config: GroupConfig) -> None:
        self.generation = group.generation
        self.members: Mapping[str, ClassicGroupMember] = {
            member.member_id: member for member in group.members
        }
        self.instances: Mapping[str, str] = {
            member.instance_id: member.member_id
            for member in group.members
            if member.instance_id is not None
        }
        """Member ids by instance id."""
        self._engine = GroupEngine(group_id, config)
        self._engine.apply(ClassicGroupMetadata(value=group))

    def check_commit(
        self, event: OffsetCommitReceived, *, topics: Topics, now_ms: int
    ) -> OffsetVerdict:
        """The engine's verdict on a commit. In the record native members have their epochs as
        classic members have generations; a wrong one is STALE_MEMBER_EPOCH for them."""
        step = self._engine.handle(event, now_ms=now_ms, topics=topics)
        ((_token, verdict),) = step.replies
        assert isinstance(verdict, OffsetVerdict)
        member = self.members.get(event.member_id)
        is_stale = verdict.error is ErrorCode.ILLEGAL_GENERATION and event.knows_member_epochs
        if is_stale and member is not None and member.is_native:
            return replace(verdict, error=ErrorCode.STALE_MEMBER_EPOCH)
        return verdict

    def member_id_of(self, leaver: Leaver) -> str:
        """The member that an entry of a LeaveGroup names. Raises GroupError: UNKNOWN_MEMBER_ID, or
        FENCED_INSTANCE_ID."""
        group = self._engine.state.group
        assert isinstance(group, ClassicGroup)
        return known_leaver(group, leaver).member_id


def unknown_member(member_id: str) -> GroupError:
    """The refusal of a member that is not in the group any more."""
    return GroupError(
        ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member of the group any more"
    )
