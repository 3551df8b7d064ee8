"""The target assignment: when it is computed, by which assignor, and what of it is written."""

from collections import Counter
from uuid import UUID

from coordinator.assignors import ASSIGNORS, Subscriber, Target
from coordinator.config import GroupConfig
from coordinator.consumer.group import ConsumerGroup
from coordinator.draft import Draft
from coordinator.records import TargetAssignmentMember, TargetAssignmentMetadata
from coordinator.volatile import DeadlineKind


def update_target(draft: Draft) -> None:
    """Compute the target if the group moved on, at most once per assignment interval (spec 3.6)."""
    group = draft.consumer
    if group.assignment_epoch < group.epoch and draft.now_ms >= _due_at_ms(draft):
        _compute_target(draft)


def schedule_target(draft: Draft) -> None:
    """DEV (spec 11.2 row 6): a group without native members computes its target by itself.

    In Kafka only native heartbeats and JoinGroups do, so that the partitions of a member that
    left an all-classic consumer group stay unassigned until somebody joins.
    """
    group = draft.consumer
    is_due = (
        bool(group.members)
        and group.assignment_epoch < group.epoch
        and not group.has_native_members
    )
    if not is_due:
        draft.disarm(DeadlineKind.TARGET_DUE)
    elif not draft.is_armed(DeadlineKind.TARGET_DUE):
        draft.arm(DeadlineKind.TARGET_DUE, "", max(0, _due_at_ms(draft) - draft.now_ms))


def preferred_assignor(group: ConsumerGroup, config: GroupConfig) -> str:
    """The assignor that most members ask for; without any wish the first configured one."""
    votes = Counter(m.server_assignor for m in group.members.values() if m.server_assignor)
    if not votes:
        return config.consumer_assignors[0]
    return max(sorted(votes), key=lambda name: votes[name])


def _due_at_ms(draft: Draft) -> int:
    computed_at_ms = draft.consumer.target_timestamp_ms
    return computed_at_ms + draft.config.consumer_assignment_interval_ms if computed_at_ms else 0


def _compute_target(draft: Draft) -> None:
    group = draft.consumer
    assignor = preferred_assignor(group, draft.config)
    subscribers = {
        member_id: Subscriber(
            instance_id=member.instance_id, topic_ids=draft.topics.ids(group.topics_of(member))
        )
        for member_id, member in group.members.items()
    }
    counts: dict[UUID, int] = {
        topic.topic_id: topic.partition_count for topic in draft.topics.by_name.values()
    }
    target: Target = ASSIGNORS[assignor](subscribers, counts, group.targets)
    for member_id in sorted(target):
        if target[member_id] != group.target_of(member_id):
            draft.emit(TargetAssignmentMember(member_id=member_id, partitions=target[member_id]))
    draft.emit(
        TargetAssignmentMetadata(epoch=group.epoch, timestamp_ms=draft.now_ms, assignor=assignor)
    )
