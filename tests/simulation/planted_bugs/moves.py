"""Bugs in adoption, release, and the restarts between them.

`test_watch_moves.py` has a scene for each: random runs need hundreds of seeds to find some of them.
"""

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
    DurableRecord,
    ReleaseRecord,
    ReleaseState,
)
from coordinator.interface.volatile_records import DeadlineKind
from gateway.hosting import recall
from gateway.hosting.holders import Holders
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
    patch.setattr(Holders, "mark_seen", lambda _holders, member_id, now_ms: (member_id, now_ms))


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
            for member in before.group.members:
                if member.member_id != before.group.leader:
                    step.disarm(DeadlineKind.SESSION, member.member_id)

    patch.setattr("coordinator.engine.adoption.adopt", adopt)


@noticed_by(Invariant.SINGLE_OWNER, Invariant.MOVES, Invariant.GRANTED, Invariant.LIVENESS)
def a_kill_forgets_the_release(patch: Patch) -> None:
    """The next process does not go on with a release that has begun."""
    _forget(patch, ReleaseRecord)


@noticed_by(Invariant.SINGLE_OWNER, Invariant.MOVES, Invariant.GRANTED, Invariant.LIVENESS)
def a_kill_forgets_the_adoption(patch: Patch) -> None:
    """The next process leaves a group that was locked as it is."""
    _forget(patch, AdoptionRecord)
