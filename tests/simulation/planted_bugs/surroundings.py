"""Bugs that show only under rare conditions: another coordinator takes the group, clocks jump, a
write to the log is in doubt, errors replace answers, or configs change.
"""

from dataclasses import replace
from typing import Any

from coordinator.classic.sync import sync as classic_sync
from coordinator.consumer import admission, regexes, target
from coordinator.conversion import upgrade
from coordinator.conversion.fence import fence
from coordinator.engine import GroupEngine
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.embedded_protocol import write_assignment
from coordinator.group.step_builder import StepBuilder
from coordinator.handlers import group_configs, offsets
from coordinator.handlers.group_configs import ASSIGNMENT_INTERVAL, Overrides
from coordinator.interface.config import GroupConfig
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    OffsetCommitEnded,
    SyncGroupReceived,
)
from coordinator.interface.records import Member, RemovalCause
from coordinator.interface.replies import SyncGroupReply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import ClassicPhase
from coordinator.native import heartbeat
from tests.simulation.invariants import Invariant
from tests.simulation.planted_bugs.bug import Patch, noticed_by

# -- another coordinator takes the group -----------------------------------------------------------


@noticed_by(Invariant.TAKEN)
def a_lost_group_keeps_its_classic_members(patch: Patch) -> None:
    """A consumer group that another coordinator took fences only its native members."""

    def fence_natives(step: StepBuilder, causes: dict[str, RemovalCause]) -> None:
        members = step.consumer.members
        natives = {id_: cause for id_, cause in causes.items() if not members[id_].is_classic}
        if natives:
            fence(step, natives)

    patch.setattr("coordinator.handlers.group_lost.fence", fence_natives)


# -- an anchor, not time, ends commits -------------------------------------------------------------


@noticed_by(Invariant.OFFSETS)
def a_lost_commit_without_deadline_ends_at_once(patch: Patch) -> None:
    """A commit whose answer was lost ends immediately if no deadline applies to it."""
    real = offsets.commit_ended

    def commit_ended(step: StepBuilder, event: OffsetCommitEnded) -> None:
        if event.answer_lost and step.config.lost_commit_hold_ms is None:
            event = replace(event, answer_lost=False)
        real(step, event)

    patch.setattr(offsets, "commit_ended", commit_ended)


# -- clocks ----------------------------------------------------------------------------------------


@noticed_by(Invariant.INTERVALS, Invariant.LIVENESS)
def a_future_target_delays_the_next(patch: Patch) -> None:
    """After a restart with a slower clock, no target is computed until the clock has caught up."""

    def due_at_ms(group: ConsumerGroup, config: GroupConfig, _now_ms: int) -> int:
        computed_at_ms = group.target_timestamp_ms
        interval_ms = config.consumer_assignment_interval_ms
        return computed_at_ms + interval_ms if computed_at_ms else 0

    patch.setattr(target, "target_due_at_ms", due_at_ms)


# -- doubtful writes -------------------------------------------------------------------------------


@noticed_by(Invariant.OFFSETS)
def a_reload_forgets_commits(patch: Patch) -> None:
    """A group that is reloaded after a doubtful write forgets its commits in flight."""
    patch.setattr(GroupEngine, "keep_commits", lambda *_: None)


# -- errors that replace answers -------------------------------------------------------------------


@noticed_by(Invariant.CLASSIC_REPLIES)
def a_repeated_sync_returns_nothing(patch: Patch) -> None:
    """A member that repeats SyncGroup after an error receives an empty assignment."""

    def sync(step: StepBuilder, event: SyncGroupReceived) -> None:
        group = step.classic
        is_repeated = group.phase is ClassicPhase.STABLE and event.member_id not in group.unsynced
        classic_sync(step, event)
        if is_repeated:
            token, reply = step.replies[-1]
            assert isinstance(reply, SyncGroupReply)
            nothing = write_assignment((), 1, step.topics)
            step.replies[-1] = token, replace(reply, assignment=nothing)

    patch.setattr("coordinator.handlers.classic_requests.classic_sync", sync)


# -- intervals -------------------------------------------------------------------------------------


@noticed_by(Invariant.INTERVALS)
def regular_expressions_are_never_refreshed(patch: Patch) -> None:
    """The resolution of a regular expression remains valid until a new topic appears."""

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
def a_group_ignores_its_assignment_interval(patch: Patch) -> None:
    """The assignment interval of the group's configs has no effect."""
    real = group_configs.in_force

    def in_force(config: GroupConfig, overrides: Overrides) -> GroupConfig:
        return real(config, {k: v for k, v in overrides.items() if k != ASSIGNMENT_INTERVAL.name})

    patch.setattr(group_configs, "in_force", in_force)


# -- racks -----------------------------------------------------------------------------------------


@noticed_by(Invariant.RACKS, Invariant.THERE_AND_BACK)
def an_upgrade_loses_racks(patch: Patch) -> None:
    """An upgrade forgets the racks of classic members."""
    real = upgrade._consumer_member
    patch.setattr(
        upgrade, "_consumer_member", lambda member, topics, _rack: real(member, topics, None)
    )


@noticed_by(Invariant.RACKS)
def a_short_heartbeat_loses_the_rack(patch: Patch) -> None:
    """A heartbeat without a rack clears the rack of its member."""
    real = heartbeat._describe_member

    def describe_member(event: ConsumerHeartbeatReceived, *rest: Any) -> Member:
        return replace(real(event, *rest), rack_id=event.rack_id)

    patch.setattr(heartbeat, "_describe_member", describe_member)


@noticed_by(Invariant.LIVENESS)
def replica_moves_go_unnoticed(patch: Patch) -> None:
    """A consumer group does not notice that a replica moved to another rack."""
    real = Topics.metadata_hash

    def metadata_hash(topics: Topics, names: Any) -> int:
        bare = {name: replace(topic, racks=()) for name, topic in topics.by_name.items()}
        return real(Topics(bare), names)

    patch.setattr(Topics, "metadata_hash", metadata_hash)


# -- another instance ------------------------------------------------------------------------------


@noticed_by(Invariant.TARGETS)
def a_changed_instance_keeps_its_old_target(patch: Patch) -> None:
    """A member that takes over another instance keeps its old partitions in the target
    (KAFKA-20747)."""
    patch.setattr(admission, "bump_epoch_if_needed", lambda *_: None)
