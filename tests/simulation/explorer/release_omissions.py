"""What a release must not leave out, planted one at a time. The explorer has to find each."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from coordinator.group.step_builder import StepBuilder
from coordinator.handlers import release as engine_release
from coordinator.interface.events import HeartbeatReceived, ReleaseBegan
from coordinator.interface.records import ClassicGroupMember, ReleaseRecord, ReleaseState
from gateway.hosting import call_stages
from gateway.hosting.effects import MoveStep
from gateway.hosting.holders import Holders
from gateway.hosting.release import Releasing
from gateway.hosting.routes import ROUTES, GroupSituation, Route
from gateway.hosting.states import ReleaseStage
from tests.simulation.explorer.bug import Bug, Patch, print_table, shows_in
from tests.simulation.explorer.planted_omissions import forget_records
from tests.simulation.planted_bugs.moves import let_go_after


@shows_in("release", "under the anchor's ids gets", {"release": 1, "commit": 1})
def the_anchor_leaves_before_commits_are_answered(patch: Patch) -> None:
    """The anchor's place is given up as soon as all members have."""
    real = Releasing.is_ready
    patch.setattr(Releasing, "is_ready", lambda releasing, commits: real(releasing, commits * 0))


@shows_in("release", " own ", {"release": 1})
def a_member_that_does_not_come_is_not_waited_for(patch: Patch) -> None:
    """The group is opened though a member may still hold partitions."""

    def is_ready(releasing: Releasing, commits: int) -> bool:
        is_somebody_back = bool(releasing.recall.returning) or not releasing.recall.holders
        return releasing.stage is ReleaseStage.RECALLING and is_somebody_back and not commits

    patch.setattr(Releasing, "is_ready", is_ready)


@shows_in("release-native", " own ", {"release": 1})
def a_native_member_is_done_once_it_is_told(patch: Patch) -> None:
    """A native member counts as one without partitions as soon as it has been told."""

    def mark_seen(holders: Holders, member_id: str, _now_ms: int) -> None:
        holders.drop(member_id)

    patch.setattr(Holders, "mark_seen", mark_seen)


@shows_in("release-native", "has no owner", {"release": 1})
def native_members_meet_the_anchor(patch: Patch) -> None:
    """The group is opened for native members as for classic ones."""
    patch.setattr(Releasing, "_can_open", property(lambda _each: True))


@shows_in("release-native-restart", "ends because of")
def a_killed_gateway_leaves_no_word_of_native_members(patch: Patch) -> None:
    """The log does not store that a native member has to be the first in the cluster."""
    store = Releasing._store
    patch.setattr(
        Releasing,
        "_store",
        lambda releasing, event: store(
            releasing, replace(event, release=replace(event.release, is_native_due=False))
        ),
    )


@shows_in("release-outsider", " own ")
def a_group_that_is_opened_at_once(patch: Patch) -> None:
    """The group is opened to outsiders while its members give up their partitions."""

    def is_ready(releasing: Releasing, commits: int) -> bool:
        return releasing.stage is ReleaseStage.RECALLING and not commits

    patch.setattr(Releasing, "is_ready", is_ready)


@shows_in("release-setting", " own ")
def a_release_forgets_a_member(patch: Patch) -> None:
    """The record of a release lacks one member."""
    real = engine_release.begin

    def begin(step: StepBuilder, event: ReleaseBegan) -> None:
        real(step, event)
        begun = step.state.release
        if begun is not None and begun.group is not None:
            group = replace(begun.group, members=begun.group.members[1:])
            step.emit(ReleaseRecord(value=ReleaseState(group=group)))

    patch.setattr("coordinator.engine.release.begin", begin)


@shows_in("release-restart", " own ")
def a_kill_forgets_the_release(patch: Patch) -> None:
    """The next process does not continue with a release that has begun."""
    forget_records(patch, ReleaseRecord)


@shows_in("release-native", " own ", {"release": 1})
def a_refused_heartbeat_ends_a_claim(patch: Patch) -> None:
    """A recalled member has given up once its heartbeat is told to rejoin."""
    let_go_after(patch, HeartbeatReceived)


@shows_in("release-native", " own ", {"release": 1})
def native_members_are_not_waited_for(patch: Patch) -> None:
    """A release waits only for classic members."""
    real = Holders.__init__

    def init(holders: Holders, members: Iterable[ClassicGroupMember], *when: Any) -> None:
        real(holders, [member for member in members if not member.is_native], *when)

    patch.setattr(Holders, "__init__", init)


@shows_in("release-restart", "has no owner", {})
def a_release_is_over_once_it_has_begun(patch: Patch) -> None:
    """The group is left to the cluster while its members have not given up."""
    patch.setattr(Releasing, "is_over", property(lambda releasing: releasing.has_begun))


@shows_in("release", "under the anchor's ids gets", {"release": 1, "commit": 1})
def commits_of_recalled_members_are_not_waited_for(patch: Patch) -> None:
    """The anchor's place is given up while commits of recalled members are on their way."""
    real = Releasing.is_ready
    patch.setattr(
        Releasing,
        "is_ready",
        lambda releasing, commits: real(releasing, commits - releasing.recall.commits.in_flight),
    )


@shows_in("release-native-setting", "ends because of")
def classic_members_come_before_a_native_one(patch: Patch) -> None:
    """Classic members join a cluster that then admits no native one."""
    let_go = {
        key: Route.CLUSTER if key[0] is GroupSituation.NATIVE_FIRST else route
        for key, route in ROUTES.items()
    }
    patch.setattr(call_stages, "ROUTES", let_go)


@shows_in("release-restart", "has no owner")
def a_hand_over_that_is_not_announced(patch: Patch) -> None:
    """The log does not store that nobody holds anything before the anchor opens the group."""
    real = Releasing._advance

    def advance(releasing: Releasing, now_ms: int) -> None:
        if releasing.stage is ReleaseStage.ANNOUNCING:
            can_open = releasing._can_open
            releasing._move(ReleaseStage.OPENING if can_open else ReleaseStage.LEAVING)
        real(releasing, now_ms)

    patch.setattr(Releasing, "_advance", advance)


@shows_in("release-fail", "has no owner")
def an_anchor_whose_leave_is_lost_counts_as_gone(patch: Patch) -> None:
    """The release is concluded although the anchor's LeaveGroup got no answer."""
    real = Releasing.on_failed

    def on_failed(releasing: Releasing, step: MoveStep, reason: str, now_ms: int) -> None:
        real(releasing, step, reason, now_ms)
        if releasing.stage is ReleaseStage.LEAVING and not releasing.is_displaced:
            releasing._await_round(now_ms)

    patch.setattr(Releasing, "on_failed", on_failed)


OMISSIONS = [var for var in vars().copy().values() if isinstance(var, Bug)]


if __name__ == "__main__":
    print_table(OMISSIONS)
