"""Bugs in adoption, release, and the restarts between them.

`test_watch_moves.py` has a scene for each: random runs need hundreds of seeds to find some of them.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from coordinator.engine import GroupEngine
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    OffsetCommitReceived,
    SyncGroupReceived,
)
from coordinator.interface.records import (
    AdoptionRecord,
    ClassicGroupMember,
    DurableRecord,
    ReleaseRecord,
    ReleaseState,
)
from coordinator.interface.replies import LeaveGroupReply
from coordinator.interface.topics import Topics
from gateway.hosting import recall
from gateway.hosting.adoption import Adopting
from gateway.hosting.calls import Answer, Call, Commit, Outcome
from gateway.hosting.holders import Grace, Holders
from gateway.hosting.recall import Recall
from gateway.hosting.release import Releasing
from gateway.hosting.states import ReleaseStage
from kafka_codecs.describe_groups import DescribedGroup
from tests.simulation.invariants import Invariant
from tests.simulation.planted_bugs.bug import Patch, noticed_by

OWNERS = (
    Invariant.SINGLE_OWNER,
    Invariant.MOVES,
    Invariant.GRANTED,
    Invariant.ANCHORED,
    Invariant.LIVENESS,
)
"""What breaks if the group is served twice, or not at all."""


@noticed_by(Invariant.MOVES, Invariant.SINGLE_OWNER)
def a_claim_counts_as_giving_up(patch: Patch) -> None:
    """A member that rejoins counts as one without partitions, whatever it claims."""
    patch.setattr(recall, "_owns_nothing", lambda _event, **_since: True)


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


# -- who is recalled, and when it has given up -----------------------------------------------------


@noticed_by(*OWNERS)
def a_leaver_takes_all_members_with_it(patch: Patch) -> None:
    """The LeaveGroup of one recalled member counts for all of them."""
    real = Recall._leave

    def leave(recalling: Recall, event: LeaveGroupReceived) -> LeaveGroupReply:
        reply = real(recalling, event)
        for member_id in recalling.members:
            recalling.let_go(member_id)
        return reply

    patch.setattr(Recall, "_leave", leave)


@noticed_by(*OWNERS)
def a_syncing_member_has_given_up(patch: Patch) -> None:
    """A recalled member that sends SyncGroup counts as one without partitions."""
    let_go_after(patch, SyncGroupReceived)


@noticed_by(*OWNERS)
def a_native_member_is_let_go_when_it_is_told(patch: Patch) -> None:
    """A native member counts as one without partitions as soon as it is told to own nothing."""
    real = Recall._reconcile

    def reconcile(
        recalling: Recall, call: Call, event: ConsumerHeartbeatReceived, now_ms: int
    ) -> Answer | None:
        answer = real(recalling, call, event, now_ms)
        if event.member_id in recalling._to_own_nothing:
            recalling.let_go(event.member_id)
        return answer

    patch.setattr(Recall, "_reconcile", reconcile)


@noticed_by(*OWNERS)
def a_recall_lasts_two_seconds(patch: Patch) -> None:
    """Members that have not rejoined after two seconds are given up."""
    real = Holders.__init__

    def init(holders: Holders, members: Any, now_ms: int, grace: Grace) -> None:
        real(holders, members, now_ms, grace)
        for holder in holders._by_id.values():
            holder.rejoin_by_ms = min(holder.rejoin_by_ms, now_ms + 2_000)
        holders._due = [(now_ms, member_id) for member_id in holders._by_id]

    patch.setattr(Holders, "__init__", init)


@noticed_by(*OWNERS)
def a_return_counts_on_every_connection(patch: Patch) -> None:
    """A JoinGroup without an id is taken for the return of any recalled member."""

    def former_id(recalling: Recall, _call: Call, _event: JoinGroupReceived) -> str | None:
        ids = (id_ for waiting in recalling._on_their_way.values() for id_ in waiting)
        return next((id_ for id_ in ids if id_ in recalling.holders), None)

    patch.setattr(Recall, "_former_id", former_id)


@noticed_by(*OWNERS)
def a_second_client_of_an_instance_ends_the_claims_of_the_first(patch: Patch) -> None:
    """A native member has given up once another client joins with its instance id."""
    real = Recall._let_joiner_go

    def let_joiner_go(recalling: Recall, event: ConsumerHeartbeatReceived) -> None:
        real(recalling, event)
        recalling.let_go(recalling.member_of(event.instance_id or "") or "")

    patch.setattr(Recall, "_let_joiner_go", let_joiner_go)


# -- how a release continues
# -------------------------------------------------------------------------


@noticed_by(*OWNERS)
def a_release_waits_for_nobody(patch: Patch) -> None:
    """The anchor's place is given up although members may hold partitions."""

    def is_ready(releasing: Releasing, _commits: int) -> bool:
        return releasing.stage in (ReleaseStage.RECALLING,) or releasing.is_displaced

    patch.setattr(Releasing, "is_ready", is_ready)


# -- how an adoption continues
# -----------------------------------------------------------------------


# -- how an adoption is undone, and what a restart does --------------------------------------------


@noticed_by(*OWNERS)
def a_restart_takes_a_release_for_over(patch: Patch) -> None:
    """The next process continues with a release as if all members had given up."""
    real = Releasing._continue

    def go_on(releasing: Releasing, release: ReleaseState, requests: Any, now_ms: int) -> None:
        real(releasing, release, requests, now_ms)
        if not releasing._has_begun_here:
            releasing.recall.holders = Holders((), now_ms, Grace())

    patch.setattr(Releasing, "_continue", go_on)


def let_go_after(patch: Patch, kind: type[SyncGroupReceived | HeartbeatReceived]) -> None:
    """Have a member count as one without partitions after such a request."""
    real = Recall.answer

    def answer(recalling: Recall, call: Call, now_ms: int) -> Answer | None:
        answer = real(recalling, call, now_ms)
        if isinstance(call.event, kind):
            recalling.let_go(call.event.member_id)
        return answer

    patch.setattr(Recall, "answer", answer)


@noticed_by(*OWNERS)
def a_commit_ends_a_claim(patch: Patch) -> None:
    """A recalled member counts as one without partitions once it has committed."""
    real = Recall.check

    def check(recalling: Recall, commit: Commit, *, topics: Topics, **how: Any) -> Outcome:
        event = commit.make(commit.token, topics)
        assert isinstance(event, OffsetCommitReceived)
        recalling.let_go(event.member_id)
        return real(recalling, commit, topics=topics, **how)

    patch.setattr(Recall, "check", check)


@noticed_by(*OWNERS)
def a_restart_undoes_without_waiting(patch: Patch) -> None:
    """The next process undoes an adoption although members may hold partitions."""
    real = Adopting._resume

    def resume(adopting: Adopting, described: DescribedGroup | None, now_ms: int) -> None:
        real(adopting, described, now_ms)
        if adopting.recall is not None:
            adopting.recall.holders = Holders((), now_ms, Grace())

    patch.setattr(Adopting, "_resume", resume)


@noticed_by(*OWNERS)
def a_restart_forgets_who_is_released(patch: Patch) -> None:
    """The next process finds a release without members."""

    def forget(record: DurableRecord) -> DurableRecord:
        if not isinstance(record, ReleaseRecord) or record.value is None:
            return record
        group = record.value.group
        return ReleaseRecord(
            value=replace(record.value, group=group and replace(group, members=()))
        )

    _load_as(patch, forget)


@noticed_by(*OWNERS)
def a_restart_forgets_who_is_adopted(patch: Patch) -> None:
    """The next process finds an adoption of the leader only."""

    def forget(record: DurableRecord) -> DurableRecord:
        if not isinstance(record, AdoptionRecord) or record.value is None:
            return record
        group = record.value.group
        leader = tuple(member for member in group.members if member.member_id == group.leader)
        return AdoptionRecord(value=replace(record.value, group=replace(group, members=leader)))

    _load_as(patch, forget)


def _load_as(patch: Patch, change: Callable[[DurableRecord], DurableRecord]) -> None:
    """Have a restart read other records than were written."""
    load = GroupEngine.load

    def load_changed(engine: GroupEngine, records: Iterable[DurableRecord], *, now_ms: int) -> None:
        load(engine, [change(record) for record in records], now_ms=now_ms)

    patch.setattr(GroupEngine, "load", load_changed)
