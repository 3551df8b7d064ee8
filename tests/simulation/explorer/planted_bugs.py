"""Bugs, most of them of the hosting machine, that only an unlikely order of events shows.

`python -m tests.simulation.explorer.planted_bugs` prints the rows of the table in
`tests/simulation/explorer/README.md`: what the explorer needs to find each, and the first of the
simulator's 200 seeds that finds it as well.
"""

from dataclasses import replace

import pytest

from coordinator.classic.member_slots import take_slot
from coordinator.group.embedded_protocol import write_assignment
from coordinator.group.member_slots import find_slot, forget_slot
from coordinator.group.step_builder import StepBuilder
from coordinator.interface.events import GroupLost, Happening, JoinGroupReceived
from coordinator.interface.records import ClassicGroupMember
from gateway.hosting.anchor import Anchor
from gateway.hosting.call_stages import CallStages
from gateway.hosting.calls import Commits
from gateway.hosting.commits import CommitsInFlight
from gateway.hosting.group import HostedGroup
from gateway.hosting.inputs import Damage
from gateway.hosting.logged_engine import LoggedEngine
from gateway.hosting.lookup_outcome import LiveMembers, LookupOutcome
from gateway.hosting.states import CommitPhase, Stage
from tests.simulation.coordinator import anchored_group
from tests.simulation.explorer.bug import Bug, Patch, print_table, shows_in
from tests.simulation.explorer.numbers import GROUP, LOG_ID
from tests.simulation.run import simulate

SEEDS = 200
ALONE = ("native",)


@shows_in("switch", "gets partitions from an anchor in doubt", {"switch": 1, "late": 1})
def a_heartbeat_under_way_confirms_a_grant(patch: Patch) -> None:
    """A heartbeat of the anchor that was sent before a decision confirms its answer."""

    def confirm(anchor: Anchor) -> int:
        anchor._confirm_after = anchor.sent - anchor._member.awaits_answer
        return anchor._confirm_after

    patch.setattr(Anchor, "confirm", confirm)


@shows_in("switch", "before the commit of another", {"crash": 1, "commit": 1, "lose": 1})
def a_client_takes_its_commit_with_it(patch: Patch) -> None:
    """A commit on its way has ended when its client is gone."""

    def abandon(commits: CommitsInFlight, call: Commits, _now_ms: int) -> None:
        for phase in (CommitPhase.ACCEPTED, CommitPhase.SENT):
            for commit in call.in_phase(phase):
                commits._engine.end_commit(commit)

    patch.setattr(CommitsInFlight, "abandon", abandon)


@shows_in("switch", "is given up though nobody else has it", {"remove": 1, "restart": 1})
def whoever_replaces_the_anchor_is_a_successor(patch: Patch) -> None:
    """The late request of a killed gateway takes the group from the next one."""
    real = HostedGroup._on_look

    def on_look(group: HostedGroup, outcome: LookupOutcome, now_ms: int) -> None:
        was_replaced = "FENCED_INSTANCE_ID" in (group.anchor._reported or "")
        if was_replaced and isinstance(outcome, LiveMembers) and outcome.anchored is not None:
            outcome = anchored_group(LOG_ID, 1000, group_id=GROUP)
        real(group, outcome, now_ms)

    patch.setattr(HostedGroup, "_on_look", on_look)


@shows_in("switch", "does not know its member", {"switch": 1, "fail": 1, "restart": 1})
def a_write_in_doubt_counts_as_failed(patch: Patch) -> None:
    """After a write that the log may have, the group continues with what it knows."""
    real = LoggedEngine.write_failed

    def write_failed(engine: LoggedEngine, damage: Damage, now_ms: int) -> None:
        real(engine, Damage.NONE if damage is Damage.UNSURE else damage, now_ms)

    patch.setattr(LoggedEngine, "write_failed", write_failed)


@shows_in("switch", "no way leads", {"leave": 1, "commit": 1, "slow": 1}, consumers=ALONE)
def a_leave_of_the_anchor_ends_no_stray(patch: Patch) -> None:
    """A commit whose answer is lost while the anchor leaves never ends."""
    real = Anchor._on_left

    def on_left(anchor: Anchor, *how: object) -> None:
        strays, anchor._strays = anchor._strays, {}
        real(anchor, *how)  # type: ignore[arg-type]
        anchor._strays = strays

    patch.setattr(Anchor, "_on_left", on_left)


@shows_in(
    "switch", "no way leads", {"leave": 1, "commit": 1, "slow": 1, "fail": 1}, consumers=ALONE
)
def a_failed_leave_of_the_anchor_forgets_strays(patch: Patch) -> None:
    """A commit whose answer is lost never ends if the anchor's LeaveGroup fails meanwhile."""
    patch.setattr(Anchor, "_leave_failed", lambda anchor, *_: anchor._cease())


@shows_in(
    "switch", "no way leads", {"commit": 1, "lose": 1, "remove": 1, "intrude": 1}, consumers=ALONE
)
def an_anchor_that_gives_way_ends_no_stray(patch: Patch) -> None:
    """A commit whose answer is lost never ends if the anchor gives way to a consumer meanwhile."""
    real = Anchor.on_look

    def on_look(anchor: Anchor, *how: object) -> None:
        strays, anchor._strays = anchor._strays, {}
        real(anchor, *how)  # type: ignore[arg-type]
        anchor._strays = strays

    patch.setattr(Anchor, "on_look", on_look)


@shows_in("switch", "though another party had the group", {"remove": 1, "intrude": 2})
def members_outlive_the_loss_of_their_group(patch: Patch) -> None:
    """The group is reported as taken, and its members continue."""
    real = LoggedEngine.observe

    def observe(engine: LoggedEngine, happening: Happening) -> None:
        if not isinstance(happening, GroupLost):
            real(engine, happening)

    patch.setattr(LoggedEngine, "observe", observe)


@shows_in(
    "temporary",
    "a and b own",
    {"leave": 1, "start": 1},
    consumers=("cooperative", "cooperative"),
)
def a_reassigned_slot_is_taken(patch: Patch) -> None:
    """A classic replacement immediately gets what another member has for a time."""

    def take(step: StepBuilder, event: JoinGroupReceived) -> ClassicGroupMember | None:
        left = take_slot(step, event)
        slot = find_slot(step, event)
        if left is not None or slot is None:
            return left
        old_id, place = slot
        forget_slot(step, old_id)
        assert isinstance(place.member, ClassicGroupMember)
        reassigned = write_assignment(place.reassigned, 1, step.topics)
        return replace(place.member, assignment=reassigned)

    patch.setattr("coordinator.classic.join.take_slot", take)


@shows_in(
    "intruder",
    "though another party had the group",
    {"switch": 1, "remove": 1, "intrude": 2},
)
def a_withheld_grant_outlives_the_loss_of_its_group(patch: Patch) -> None:
    """A consumer has the group while an answer waits for the anchor, and it leaves all the same."""

    def supersede(stages: CallStages) -> None:
        for call in stages.by_token.values():
            call.is_superseded |= call.stage is Stage.DECIDING or isinstance(call, Commits)

    patch.setattr(CallStages, "supersede", supersede)


BUGS = [var for var in vars().copy().values() if isinstance(var, Bug)]


def seed_that_finds(bug: Bug) -> int | str:
    """The first of the simulator's seeds that finds the bug, or "none"."""
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        return next((seed for seed in range(SEEDS) if simulate(seed).invariant), "none")


if __name__ == "__main__":
    print_table(BUGS, seed_that_finds)
