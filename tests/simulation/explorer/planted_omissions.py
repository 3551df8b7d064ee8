"""Steps of an adoption that a change might leave out, and the consequences."""

from collections.abc import Iterable
from dataclasses import replace

from coordinator.engine import GroupEngine
from coordinator.group.step_builder import StepBuilder
from coordinator.handlers import adoption as engine_adoption
from coordinator.interface.records import (
    AdoptionRecord,
    ClassicGroupMetadata,
    ClassicGroupValue,
    DurableRecord,
)
from coordinator.interface.volatile_records import DeadlineKind
from gateway.hosting import adoptable, adoption
from gateway.hosting.adoption import Adopting
from gateway.hosting.call_stages import CallStages
from gateway.hosting.calls import Call, Commits, Forwarded
from gateway.hosting.forwarded import WatchedGroup
from gateway.hosting.holders import Holders
from gateway.hosting.routes import GroupSituation
from gateway.hosting.states import AdoptionStage as Stage
from kafka_codecs.describe_groups import DescribedGroup
from tests.simulation.explorer.bug import Bug, Patch, print_table, shows_in


@shows_in("adopt-outsider", " own ", {}, ("start o", "adopt"))
def no_lock(patch: Patch) -> None:
    """The anchor joins while the leader's member still has protocols in common with consumers."""

    def lock(adopting: Adopting, now_ms: int) -> None:
        adopting._move(Stage.LOCKING, now_ms)
        adopting._store_lock(adopting._leader.stage.round.generation_id)  # type: ignore[union-attr]
        adopting._leader.take_place(adopting._locked_ids, now_ms)

    patch.setattr(Adopting, "_lock", lock)


@shows_in("adopt-outsider", " own ", {}, ("start o", "send o", "adopt"))
def a_lock_by_another_member_than_the_leader(patch: Patch) -> None:
    """Another member than the leader stays."""
    real = adoptable.snapshot

    def snapshot(described: DescribedGroup, watched: WatchedGroup) -> ClassicGroupValue:
        group = real(described, watched)
        follower = next(m.member_id for m in group.members if m.member_id != group.leader)
        return replace(group, leader=follower)

    patch.setattr(adoption, "snapshot", snapshot)


@shows_in("adopt", "a commit of", {"commit": 1}, ("adopt",))
def commits_released_before_the_anchor_is_stable(patch: Patch) -> None:
    """Commits are held only until the leader's member rejoins."""
    real = CallStages._place

    def place(stages: CallStages, call: Call, now_ms: int) -> None:
        move = stages._move
        is_held = move.situation is GroupSituation.HELD and isinstance(call, Commits)
        if is_held and move.stage not in (None, Stage.IMPERSONATING):
            stages.answer(call, Forwarded(move.why_forwarded))
        else:
            real(stages, call, now_ms)

    patch.setattr(CallStages, "_place", place)


@shows_in("adopt-outsider", " own ", {"slow": 1}, ("start o", "send o", "adopt"))
def heartbeats_that_succeed_before_the_group_is_guarded(patch: Patch) -> None:
    """The gateway answers heartbeats itself as soon as calls are held."""
    patch.setattr(Adopting, "vouches", property(lambda _each: True))


@shows_in("adopt-outsider", " own ", {}, ("start o", "send o", "adopt"))
def no_guard_while_members_give_up_their_partitions(patch: Patch) -> None:
    """An adoption is undone by letting all members go at the same time."""
    real = Adopting._fail

    def fail(adopting: Adopting, reason: str, now_ms: int) -> None:
        real(adopting, reason, now_ms)
        if adopting.recall is not None:
            adopting.recall.holders = Holders((), now_ms, adopting._parts.engine.grace)

    patch.setattr(Adopting, "_fail", fail)


@shows_in("adopt-whole", "a commit of", {"commit": 1}, ("adopt",))
def calls_relayed_until_the_leaders_member_rejoins(patch: Patch) -> None:
    """Calls are still relayed while the gateway sends heartbeats for the members."""
    real = Adopting.situation.fget  # type: ignore[attr-defined]

    def situation(adopting: Adopting) -> GroupSituation | None:
        is_early = adopting.stage is Stage.IMPERSONATING
        return GroupSituation.PROPOSED if is_early else real(adopting)

    patch.setattr(Adopting, "situation", property(situation))


def forget_records(patch: Patch, kind: type[DurableRecord]) -> None:
    """Have a restart lose the records of one type."""
    load = GroupEngine.load

    def without(engine: GroupEngine, records: Iterable[DurableRecord], *, now_ms: int) -> None:
        load(engine, [record for record in records if not isinstance(record, kind)], now_ms=now_ms)

    patch.setattr(GroupEngine, "load", without)


@shows_in("adopt-restart", " own ")
def a_kill_forgets_the_adoption(patch: Patch) -> None:
    """The next process leaves a group that was locked as it is."""
    forget_records(patch, AdoptionRecord)


@shows_in("adopt-restart", "UNKNOWN_MEMBER_ID", {})
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


@shows_in("adopt-restart", "timers", {})
def adopted_members_have_no_sessions(patch: Patch) -> None:
    """Nothing ends the session of an adopted member that is silent."""
    real = engine_adoption.adopt

    def adopt(step: StepBuilder) -> None:
        adoption = step.state.adoption
        real(step)
        for member in adoption.group.members if adoption is not None else ():
            step.disarm(DeadlineKind.SESSION, member.member_id)

    patch.setattr("coordinator.engine.adoption.adopt", adopt)


@shows_in("adopt", "though nothing has happened", {"commit": 1}, ("adopt",))
def calls_relayed_while_the_leaders_member_leaves(patch: Patch) -> None:
    """Calls reach the cluster again before the engine has taken over."""
    real = Adopting.situation.fget  # type: ignore[attr-defined]

    def situation(adopting: Adopting) -> GroupSituation | None:
        is_late = adopting.stage is Stage.HANDING_OVER
        return GroupSituation.PROPOSED if is_late else real(adopting)

    patch.setattr(Adopting, "situation", property(situation))


OMISSIONS = [var for var in vars().copy().values() if isinstance(var, Bug)]


if __name__ == "__main__":
    print_table(OMISSIONS)
