"""Has a target computed by an assignor outside the engine (rule 9.6, DEV D86).

The engine says what the target is computed from and keeps the target that it has meanwhile. The
result comes in a later step, and is installed even if the group has changed meanwhile, so that the
group always makes progress. One computation per group is under way at a time.
"""

from collections.abc import Mapping

from coordinator.assignors import GroupSpec
from coordinator.assignors.group_spec import NOTHING, Target
from coordinator.assignors.target_validation import flaw_in
from coordinator.consumer.group_epoch import bump_epoch_if_needed, wait_for_target
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import AssignmentReceived
from coordinator.interface.records import (
    AssignmentMetadata,
    EpochCause,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import (
    Computation,
    ComputationFailed,
    ComputationStarted,
)

RETRY_MS = 10_000
"""The delay before the next computation after one that failed."""
REASON_CHARS_MAX = 500


def delegate(
    step: StepBuilder, assignor: str, spec: GroupSpec, *, is_members: bool = False
) -> None:
    """Ask for a target. It is computed from a copy of the group, which keeps changing."""
    group = step.consumer
    wait_for_target(step)
    computation = Computation(
        epoch=group.epoch,
        assignor=assignor,
        members=dict(spec.members),
        partition_counts=spec.partition_counts,
        target=dict(spec.target),
        spared=frozenset(spec.spared),
        imbalance_percent=spec.imbalance_percent,
        racks=spec.racks,
        is_members=is_members,
    )
    step.emit(ComputationStarted(computation))
    if not is_members:
        step.computation = computation


def receive(step: StepBuilder, event: AssignmentReceived) -> None:
    """A plug-in answers. The result of a computation that a restart or a conversion ended is
    ignored."""
    group = step.state.group
    computation = group.computation if isinstance(group, ConsumerGroup) else None
    if computation is None or computation.is_members or event.epoch != computation.epoch:
        return
    install(step, computation, event.target, why_not=event.failure)


def install(
    step: StepBuilder,
    computation: Computation,
    changed: Target,
    metadata: Mapping[str, AssignmentMetadata] | None = None,
    *,
    why_not: str = "",
    error: int = 0,
) -> str:
    """Install a target, unless it is wrong or there is a reason why not: then the group keeps the
    one that it has, and the reason is returned."""
    step.check_time(computation.members, computation.partition_counts)
    if step.config.roll_policy.is_paused:  # DEV D75
        why_not = "the group is paused"
    why_not = why_not or flaw_in(changed, computation, step.topics)
    if why_not:
        step.emit(
            ComputationFailed(
                epoch=computation.epoch,
                assignor=computation.assignor,
                reason=why_not[:REASON_CHARS_MAX],
                retry_at_ms=step.now_ms + RETRY_MS,
                error=error,
            )
        )
    else:
        _write_target(step, {**computation.target, **changed}, metadata or {}, computation)
    return why_not


def _write_target(
    step: StepBuilder,
    target: Target,
    metadata: Mapping[str, AssignmentMetadata],
    computation: Computation,
) -> None:
    """Write what differs. A member that left meanwhile loses its share, unless another has its
    instance id now. One that joined meanwhile waits for the next target, which is due immediately
    if no other member needs it: the replacement of a static member may have changed its instance
    id."""
    group = step.consumer
    shares: dict[str, tuple[frozenset[Partition], AssignmentMetadata | None]] = {}
    has_orphans = False
    for member_id, partitions in target.items():
        holder_id = member_id
        if member_id not in group.members:
            holder_id = group.instances.get(computation.members[member_id].instance_id or "", "")
        if holder_id == member_id or (holder_id and holder_id not in computation.members):
            shares[holder_id] = partitions, metadata.get(member_id)
        else:
            has_orphans |= bool(partitions)
    for member_id in sorted(group.members):
        share, own_metadata = shares.get(member_id, (NOTHING, None))
        if (share, own_metadata) != (
            group.target_of(member_id),
            group.target_metadata.get(member_id),
        ):
            step.emit(
                TargetAssignmentMember(member_id=member_id, partitions=share, metadata=own_metadata)
            )
    step.emit(
        TargetAssignmentMetadata(
            epoch=computation.epoch, timestamp_ms=step.now_ms, assignor=computation.assignor
        )
    )
    if has_orphans and group.epoch == computation.epoch:
        bump_epoch_if_needed(step, EpochCause.MEMBER_REMOVED)
