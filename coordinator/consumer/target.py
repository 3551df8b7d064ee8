"""Computes the target assignment and writes its changes, or has it computed: see
`external_assignors.py`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from uuid import UUID

from coordinator.assignors import ASSIGNORS, GroupSpec, Subscriber
from coordinator.consumer.external_assignors import delegate
from coordinator.consumer.group_epoch import wait_for_target
from coordinator.consumer.member_slots import end_slots
from coordinator.consumer.selection import (
    client_side_assignor,
    drop_lost_member,
    server_side_assignor,
)
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.config import GroupConfig
from coordinator.interface.records import TargetAssignmentMember, TargetAssignmentMetadata
from coordinator.interface.topics import Topic, Topics


def update_target(step: StepBuilder, *, rejoining: str = "") -> None:
    """Compute the target if the group epoch grew, at most once per assignment interval (rule 3.6).
    A member that is rejoining anyway need not be spared (rule 9.4).

    DEV D65: raises LongComputation if the computation would be long and the step may not take long.
    """
    if step.consumer.chosen is not None:
        drop_lost_member(step, step.consumer.chosen)
    if is_target_due(step) and client_side_assignor(step.consumer, step.config) is None:
        _compute_target(step, rejoining)
    elif step.consumer.assignment_epoch < step.consumer.epoch:
        wait_for_target(step)


def is_target_due(step: StepBuilder) -> bool:
    """Whether the computation of the next target may begin."""
    return is_target_awaited(step) and step.now_ms >= target_due_at_ms(
        step.consumer, step.config, step.now_ms
    )


def is_target_awaited(step: StepBuilder) -> bool:
    """Whether the group needs a new target, may have it, and none is being computed. DEV D75: an
    operator may pause the group, which then keeps the target that it has. DEV D92: a group without
    members needs none."""
    group = step.consumer
    return (
        group.assignment_epoch < group.epoch
        and group.computation is None
        and group.chosen is None
        and not step.config.roll_policy.is_paused
    )


def target_due_at_ms(group: ConsumerGroup, config: GroupConfig, now_ms: int) -> int:
    """When the next target may be computed, in wall-clock milliseconds; 0 means immediately.

    DEV D83: the second target after a quiet time does not wait, either. A consumer that restarts
    changes its group twice.
    """
    waits = config.second_target_waits
    computed_at_ms = group.target_timestamp_ms if waits else group.earlier_target_ms
    if not computed_at_ms or computed_at_ms > now_ms:  # stored while the clock was ahead
        return group.retry_at_ms
    return max(computed_at_ms + config.consumer_assignment_interval_ms, group.retry_at_ms)


def may_be_uneven(step: StepBuilder) -> bool:
    """Whether the target is perhaps uneven because members were spared (rule 9.4). A slot counts
    like a member: its replacement gets that target. A target without an assignor comes from the
    classic group."""
    group = step.consumer
    if group.assignor is None or step.config.unaffected_members_rejoin:
        return False
    loads = [*group.loads.sizes(), *group.spared.sizes()]
    slots = step.state.member_slots.items()
    loads += [len(group.target_of(left_id)) for left_id, slot in slots if not slot.reassigned]
    return max(loads, default=0) - min(loads, default=0) > 1


def _compute_target(step: StepBuilder, rejoining: str) -> None:
    group = step.consumer
    if step.state.member_slots:
        end_slots(step)
    assignor = server_side_assignor(group, step.config)
    spec = group_spec(group, step.topics, step.config)
    if spec.spared.get(rejoining) is not None:
        spec = replace(spec, loads=spec.loads.fork(), spared=spec.spared.fork())
        spec.spared.move(rejoining, spec.loads)
    step.check_time(spec.members, spec.partition_counts)
    if assignor not in ASSIGNORS:
        delegate(step, assignor, spec)
        return
    changed = ASSIGNORS[assignor](spec)
    for member_id in sorted(changed.keys() | group.target_metadata.keys()):
        partitions = changed.get(member_id, group.target_of(member_id))
        step.emit(TargetAssignmentMember(member_id=member_id, partitions=partitions))
    step.emit(
        TargetAssignmentMetadata(epoch=group.epoch, timestamp_ms=step.now_ms, assignor=assignor)
    )


def group_spec(group: ConsumerGroup, topics: Topics, config: GroupConfig) -> GroupSpec:
    """The assignor's input, without nonexistent topics (rule 9.3)."""
    subscriber_counts: Counter[UUID] = Counter()
    for subscription, count in group.subscriptions.items():
        for topic_id in topics.ids(group.topics_of(subscription)):
            subscriber_counts[topic_id] += count
    return GroupSpec(
        members=_Subscribers(group, topics),
        subscriber_counts=subscriber_counts,
        partition_counts={id_: topics.by_id[id_].partition_count for id_ in subscriber_counts},
        target=group.targets,
        owners=group.target_owners,
        loads=group.loads,
        spared=group.spared,
        imbalance_percent=(
            None if config.unaffected_members_rejoin else config.eager_imbalance_percent
        ),
        racks=_racks(map(topics.by_id.__getitem__, subscriber_counts)) if config.rack_aware else {},
    )


def _racks(topics: Iterable[Topic]) -> Mapping[UUID, tuple[frozenset[str], ...]]:
    """The racks of the topics that have any (DEV D84)."""
    return {topic.topic_id: topic.racks for topic in topics if any(topic.racks)}


class _Subscribers(Mapping[str, Subscriber]):
    """The members of a group, converted lazily for an assignor."""

    def __init__(self, group: ConsumerGroup, topics: Topics) -> None:
        self._group = group
        self._topics = topics

    def __getitem__(self, member_id: str) -> Subscriber:
        member = self._group.members[member_id]
        topic_ids = self._topics.ids(self._group.topics_of(member))
        return Subscriber(
            instance_id=member.instance_id, rack_id=member.rack_id, topic_ids=topic_ids
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._group.members)

    def __len__(self) -> int:
        return len(self._group.members)
