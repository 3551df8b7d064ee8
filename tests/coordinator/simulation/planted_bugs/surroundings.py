"""Bugs that only show when the world around the group is as bad as it can be: somebody else takes
the group, clocks jump, the log is in doubt, answers give way to errors, configs change.
"""

from dataclasses import replace
from typing import Any

from coordinator import group_configs, offsets
from coordinator.classic.sync import sync as classic_sync
from coordinator.config import GroupConfig
from coordinator.consumer import admission, regexes, target
from coordinator.consumer.group import ConsumerGroup
from coordinator.conversion import upgrade
from coordinator.conversion.embedded import write_assignment
from coordinator.conversion.fence import fence
from coordinator.engine import GroupEngine
from coordinator.events import ConsumerHeartbeatReceived, OffsetCommitEnded, SyncGroupReceived
from coordinator.group_configs import ASSIGNMENT_INTERVAL, Overrides
from coordinator.native import heartbeat
from coordinator.records import Member, RemovalCause
from coordinator.replies import SyncGroupReply
from coordinator.simulation.invariants import Invariant
from coordinator.step_builder import StepBuilder
from coordinator.topics import Topics
from coordinator.volatile import ClassicPhase
from tests.coordinator.simulation.planted_bugs.bug import Patch, noticed_by

# -- somebody else takes the group -----------------------------------------------------------------


@noticed_by(Invariant.TAKEN)
def a_group_that_is_taken_keeps_its_classic_members(patch: Patch) -> None:
    """Of a consumer group that somebody else has, only the native members are fenced."""

    def fence_natives(step: StepBuilder, causes: dict[str, RemovalCause]) -> None:
        members = step.consumer.members
        natives = {id_: cause for id_, cause in causes.items() if not members[id_].is_classic}
        if natives:
            fence(step, natives)

    patch.setattr("coordinator.group_lost.fence", fence_natives)


# -- an anchor, not time, ends commits -------------------------------------------------------------


@noticed_by(Invariant.OFFSETS)
def a_lost_commit_without_a_deadline_is_over(patch: Patch) -> None:
    """Where time does not tell, a commit whose answer was lost counts as ended at once."""
    real = offsets.commit_ended

    def commit_ended(step: StepBuilder, event: OffsetCommitEnded) -> None:
        if event.answer_lost and step.config.lost_commit_hold_ms is None:
            event = replace(event, answer_lost=False)
        real(step, event)

    patch.setattr(offsets, "commit_ended", commit_ended)


# -- clocks ----------------------------------------------------------------------------------------


@noticed_by(Invariant.INTERVALS)
def a_target_of_the_future_keeps_others_away(patch: Patch) -> None:
    """After a restart with a slower clock no target is computed until it has caught up."""

    def due_at_ms(step: StepBuilder) -> int:
        computed_at_ms = step.consumer.target_timestamp_ms
        interval_ms = step.config.consumer_assignment_interval_ms
        return computed_at_ms + interval_ms if computed_at_ms else 0

    patch.setattr(target, "target_due_at_ms", due_at_ms)


# -- the log is in doubt ---------------------------------------------------------------------------


@noticed_by(Invariant.OFFSETS)
def a_group_loaded_again_forgets_commits(patch: Patch) -> None:
    """A group that is loaded again, for its log was in doubt, knows of no commit on its way."""
    patch.setattr(GroupEngine, "keep_commits", lambda *_: None)


# -- errors in the place of answers ----------------------------------------------------------------


@noticed_by(Invariant.CLASSIC_REPLIES)
def a_repeated_sync_is_told_nothing(patch: Patch) -> None:
    """A member that asks again, for an error hid its assignment, is told that it has none."""

    def sync(step: StepBuilder, event: SyncGroupReceived) -> None:
        group = step.classic
        is_repeated = group.phase is ClassicPhase.STABLE and event.member_id not in group.unsynced
        classic_sync(step, event)
        if is_repeated:
            token, reply = step.replies[-1]
            assert isinstance(reply, SyncGroupReply)
            nothing = write_assignment((), 1, step.topics)
            step.replies[-1] = token, replace(reply, assignment=nothing)

    patch.setattr("coordinator.classic_requests.classic_sync", sync)


# -- intervals -------------------------------------------------------------------------------------


@noticed_by(Invariant.INTERVALS)
def regular_expressions_are_never_refreshed(patch: Patch) -> None:
    """What a regular expression matched stands until a new topic appears."""

    def is_due(step: StepBuilder, group: ConsumerGroup) -> bool:
        patient = replace(step.config, consumer_regex_refresh_interval_ms=10**9)
        real_config, step.config = step.config, patient
        try:
            return real(step, group)
        finally:
            step.config = real_config

    real = regexes._is_due
    patch.setattr(regexes, "_is_due", is_due)


@noticed_by(Invariant.INTERVALS)
def a_group_has_no_assignment_interval_of_its_own(patch: Patch) -> None:
    """The assignment interval of the group's configs counts for nothing."""
    real = group_configs.in_force

    def in_force(config: GroupConfig, overrides: Overrides) -> GroupConfig:
        return real(config, {k: v for k, v in overrides.items() if k != ASSIGNMENT_INTERVAL.name})

    patch.setattr(group_configs, "in_force", in_force)


# -- racks -----------------------------------------------------------------------------------------


@noticed_by(Invariant.RACKS)
def an_upgrade_loses_racks(patch: Patch) -> None:
    """An upgrade forgets in which rack a classic member is."""
    real = upgrade._consumer_member
    patch.setattr(
        upgrade, "_consumer_member", lambda member, topics, _rack: real(member, topics, None)
    )


@noticed_by(Invariant.RACKS)
def a_short_heartbeat_loses_the_rack(patch: Patch) -> None:
    """A heartbeat that names no rack says that its member has none."""
    real = heartbeat._described

    def described(event: ConsumerHeartbeatReceived, *rest: Any) -> Member:
        return replace(real(event, *rest), rack_id=event.rack_id)

    patch.setattr(heartbeat, "_described", described)


@noticed_by(Invariant.LIVENESS)
def a_replica_may_move_unnoticed(patch: Patch) -> None:
    """A consumer group does not notice that a replica moved to another rack."""
    real = Topics.metadata_hash

    def metadata_hash(topics: Topics, names: Any) -> int:
        bare = {name: replace(topic, racks=()) for name, topic in topics.by_name.items()}
        return real(Topics(bare), names)

    patch.setattr(Topics, "metadata_hash", metadata_hash)


# -- another instance ------------------------------------------------------------------------------


@noticed_by(Invariant.TARGETS)
def whoever_takes_a_place_leaves_its_own_to_nobody(patch: Patch) -> None:
    """A member that takes over the place of another instance keeps its own in the target
    (KAFKA-20747)."""
    patch.setattr(admission, "bump_epoch_if_needed", lambda *_: None)
