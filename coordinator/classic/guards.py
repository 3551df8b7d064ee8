"""Checks shared by several requests to a classic group."""

from coordinator.group.classic_group import ClassicGroup
from coordinator.interface.errors import GroupError
from coordinator.interface.events import Leaver
from coordinator.interface.records import ClassicGroupMember
from kafka_codecs.error_codes import ErrorCode


def known_member(
    group: ClassicGroup, member_id: str, instance_id: str | None
) -> ClassicGroupMember:
    """The member with these ids (rule 2.4, KIP-345).

    Raises GroupError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if the instance id belongs to
    another member.
    """
    if instance_id is not None:
        holder = group.instances.get(instance_id)
        if holder is None:
            raise GroupError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"no member has the instance id {instance_id}",
                member_id=member_id,
            )
        if holder != member_id:
            raise GroupError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"the instance id {instance_id} belongs to another member now",
                member_id=member_id,
            )
    member = group.members.get(member_id)
    if member is None:
        raise GroupError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"{member_id!r} is not a member of the group",
            member_id=member_id,
        )
    return member


def known_leaver(group: ClassicGroup, leaver: Leaver) -> ClassicGroupMember:
    """The member that an entry of a LeaveGroup names; that of an admin names only the instance
    (rule 2.8). Raises GroupError as `known_member` does."""
    member_id = leaver.member_id
    if not member_id and leaver.instance_id is not None:
        member_id = group.instances.get(leaver.instance_id, "")
    return known_member(group, member_id, leaver.instance_id)


def is_at_older_epoch(group: ClassicGroup, member_id: str, generation: int) -> bool:
    """DEV D8: whether the member presents the epoch that it had at the downgrade, and no rebalance
    has completed since.

    Kafka answers ILLEGAL_GENERATION, which makes clients drop their partitions as lost. Asking the
    member to rejoin is enough, because the join phase is a barrier for all members.
    """
    return group.core.older_epochs.get(member_id) == generation


def check_generation(group: ClassicGroup, generation: int) -> None:
    """Raises GroupError ILLEGAL_GENERATION unless this is the group's generation."""
    if generation != group.core.generation:
        raise GroupError(
            ErrorCode.ILLEGAL_GENERATION,
            f"generation {generation} is not the current one, {group.core.generation}",
        )
