"""Bugs in adoption, release, undoing and the restarts between them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from coordinator.engine import GroupEngine
from coordinator.group.step_builder import StepBuilder
from coordinator.handlers import adoption as engine_adoption
from coordinator.handlers import release as engine_release
from coordinator.interface.events import ReleaseBegan
from coordinator.interface.records import (
    AdoptionRecord,
    ClassicGroupMember,
    ClassicGroupMetadata,
    ClassicGroupValue,
    DurableRecord,
    ReleaseRecord,
    ReleaseState,
)
from coordinator.interface.replies import OffsetVerdict
from gateway.hosting import adoptable, adoption, recall
from gateway.hosting.call_stages import CallStages
from gateway.hosting.forwarded import WatchedGroup
from gateway.hosting.holders import Holders
from gateway.hosting.recall import Recall
from gateway.hosting.recalled_group import RecalledGroup
from gateway.hosting.release import Releasing
from gateway.hosting.standing import Found, Nobody, Standing, Verdict
from kafka_codecs.describe_groups import DescribedGroup
from tests.simulation.invariants import Invariant
from tests.simulation.planted_bugs.bug import Patch, noticed_by


def _forget(patch: Patch, kind: type[DurableRecord]) -> None:
    """Have a restart lose the records of one type."""
    load = GroupEngine.load

    def without(engine: GroupEngine, records: Iterable[DurableRecord], *, now_ms: int) -> None:
        load(engine, [each for each in records if not isinstance(each, kind)], now_ms=now_ms)

    patch.setattr(GroupEngine, "load", without)


@noticed_by(Invariant.MOVES, Invariant.SINGLE_OWNER)
def a_claim_counts_as_giving_up(patch: Patch) -> None:
    """A member that rejoins counts as one without partitions, whatever it claims."""
    patch.setattr(recall, "_owns_nothing", lambda _event: True)


@noticed_by(Invariant.MOVES, Invariant.SINGLE_OWNER)
def a_silent_member_gets_half_its_session(patch: Patch) -> None:
    """A recalled member is given up after half of its session."""
    real = Holders.__init__

    def init(
        holders: Holders, members: Iterable[ClassicGroupMember], *when: Any, **how: Any
    ) -> None:
        halves = (
            replace(
                member,
                session_timeout_ms=member.session_timeout_ms // 2,
                rebalance_timeout_ms=member.rebalance_timeout_ms // 2,
            )
            for member in members
        )
        real(holders, halves, *when, **how)

    patch.setattr(Holders, "__init__", init)


@noticed_by(Invariant.MOVES, Invariant.SINGLE_OWNER)
def a_heartbeat_keeps_no_recalled_member(patch: Patch) -> None:
    """A recalled member is given up a session after the recall, although it is heard."""
    patch.setattr(Holders, "heard", lambda _holders, member_id, now_ms: (member_id, now_ms))


@noticed_by(Invariant.MOVES, Invariant.SINGLE_OWNER, Invariant.GRANTED)
def a_release_forgets_a_member(patch: Patch) -> None:
    """The record of a release lacks one member."""
    real = engine_release.begin

    def begin(step: StepBuilder, event: ReleaseBegan) -> None:
        real(step, event)
        release = step.state.release
        if release is not None and release.group is not None:
            group = replace(release.group, members=release.group.members[1:])
            step.emit(ReleaseRecord(value=ReleaseState(group=group)))

    patch.setattr("coordinator.engine.release.begin", begin)


@noticed_by(Invariant.MOVES, Invariant.SINGLE_OWNER, Invariant.GRANTED)
def an_adoption_forgets_a_member(patch: Patch) -> None:
    """The adopted group lacks one of its members."""
    real = engine_adoption.adopt

    def adopt(step: StepBuilder) -> None:
        before = step.state.adoption
        real(step)
        if before is not None and len(before.group.members) > 1:
            members = tuple(m for m in before.group.members if m.member_id == before.group.leader)
            step.emit(ClassicGroupMetadata(value=replace(before.group, members=members)))

    patch.setattr("coordinator.engine.adoption.adopt", adopt)


@noticed_by(Invariant.OFFSETS, Invariant.STALE_COMMIT, Invariant.MOVES)
def any_commit_of_a_recalled_member_is_stored(patch: Patch) -> None:
    """Neither its generation nor its id is compared."""
    patch.setattr(RecalledGroup, "check_commit", lambda _group, _event, **_how: OffsetVerdict())
    real = Recall.store

    def store(recall: Recall, call: Any, **how: Any) -> Any:
        how["holders"] = [] if recall._group is None else recall._group.members
        return real(recall, call, **how)

    patch.setattr(Recall, "store", store)


@noticed_by(Invariant.OFFSETS, Invariant.IN_FLIGHT)
def a_release_waits_for_no_commit(patch: Patch) -> None:
    """The anchor gives its place away while commits travel under its ids."""
    real = Releasing.is_ready
    patch.setattr(Releasing, "is_ready", lambda releasing, _commits: real(releasing, 0))


@noticed_by(Invariant.SINGLE_OWNER, Invariant.MOVES, Invariant.GRANTED, Invariant.LIVENESS)
def a_kill_forgets_the_release(patch: Patch) -> None:
    """The next process does not go on with a release that has begun."""
    _forget(patch, ReleaseRecord)


@noticed_by(Invariant.SINGLE_OWNER, Invariant.MOVES, Invariant.GRANTED, Invariant.LIVENESS)
def a_kill_forgets_the_adoption(patch: Patch) -> None:
    """The next process leaves a group that was locked as it is."""
    _forget(patch, AdoptionRecord)


@noticed_by(Invariant.LIVENESS, Invariant.NO_ERROR, Invariant.SINGLE_OWNER)
def a_follower_counts_as_the_leader(patch: Patch) -> None:
    """Not the leader's member keeps the group during an adoption, but another one."""
    real = adoptable.snapshot

    def snapshot(described: DescribedGroup, watched: WatchedGroup) -> ClassicGroupValue:
        group = real(described, watched)
        others = [m.member_id for m in group.members if m.member_id != group.leader]
        return replace(group, leader=others[0]) if others else group

    patch.setattr(adoption, "snapshot", snapshot)


@noticed_by(
    Invariant.GRANTED, Invariant.SINGLE_OWNER, Invariant.LIVENESS, Invariant.CLASSIC_REPLIES
)
def an_adopted_member_loses_its_assignment(patch: Patch) -> None:
    """The record of an adoption has no assignments."""
    real = adoptable.snapshot

    def snapshot(described: DescribedGroup, watched: WatchedGroup) -> ClassicGroupValue:
        group = real(described, watched)
        members = tuple(replace(member, assignment=b"") for member in group.members)
        return replace(group, members=members)

    patch.setattr(adoption, "snapshot", snapshot)


@noticed_by(Invariant.LIVENESS, Invariant.SINGLE_OWNER, Invariant.MOVES, Invariant.GRANTED)
def a_group_in_the_cluster_counts_as_empty(patch: Patch) -> None:
    """After a release, who is in the group in the cluster does not matter."""
    real = Standing.take

    def take(standing: Standing, found: Found, now_ms: int, **how: Any) -> Verdict:
        return real(standing, Nobody() if standing.is_released else found, now_ms, **how)

    patch.setattr(Standing, "take", take)


@noticed_by(Invariant.SINGLE_OWNER, Invariant.MOVES, Invariant.OFFSETS)
def strays_of_a_recall_are_forgotten(patch: Patch) -> None:
    """After a commit under the guard's ids was lost, later ones are stored."""
    patch.setattr(Recall, "lose", lambda recall, call: recall.in_flight.discard(call.token))


@noticed_by(Invariant.OFFSETS, Invariant.IN_FLIGHT)
def a_lost_commit_of_a_recall_is_in_flight_no_more(patch: Patch) -> None:
    """The client of a commit that is on its way goes, and the release does not wait for it."""
    patch.setattr(CallStages, "_abandon", lambda _stages, call, now_ms: (call, now_ms))
