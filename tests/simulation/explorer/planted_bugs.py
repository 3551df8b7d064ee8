"""Bugs, most of them of the hosting machine, that only an unlikely order of events shows.

`python -m tests.simulation.explorer.planted_bugs` prints the rows of the table in
`tests/simulation/explorer/README.md`: what the explorer needs to find each, and the first of the
simulator's 200 seeds that finds it as well.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

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
from gateway.hosting.standing import LiveMembers, LookupOutcome
from gateway.hosting.states import CommitPhase, Stage
from tests.simulation.coordinator import anchored_group
from tests.simulation.explorer.numbers import GROUP, LOG_ID
from tests.simulation.explorer.search import Bounds, Report, explore
from tests.simulation.explorer.shape import Shape
from tests.simulation.explorer.small_consumers import Kind
from tests.simulation.explorer.worlds import WORLDS
from tests.simulation.run import simulate

SEEDS = 200
Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Bug:
    """One planted bug, the world that shows it, and words of the promise that it breaks."""

    name: str
    what: str
    shape: Shape
    breaks: str
    plant: Callable[[Patch], None]


def shows_in(
    budgets: Mapping[str, int],
    breaks: str,
    consumers: Sequence[str] = ("cooperative", "native"),
    world: str = "switch",
) -> Callable[[Callable[[Patch], None]], Bug]:
    """Turn a function that plants a bug into a `Bug`."""

    def bug(plant: Callable[[Patch], None]) -> Bug:
        what = " ".join((plant.__doc__ or "").split())
        named = tuple(zip("abc", map(Kind, consumers), strict=False))
        shape = replace(WORLDS[world], budgets=budgets, consumers=named)
        return Bug(plant.__name__, what, shape, breaks, plant)

    return bug


@shows_in({"switch": 1, "late": 1}, "gets partitions from an anchor in doubt")
def a_heartbeat_under_way_confirms_a_grant(patch: Patch) -> None:
    """A heartbeat of the anchor that was sent before a decision confirms its answer."""

    def confirm(anchor: Anchor) -> int:
        anchor._confirm_after = anchor.sent - anchor._member.awaits_answer
        return anchor._confirm_after

    patch.setattr(Anchor, "confirm", confirm)


@shows_in({"crash": 1, "commit": 1, "lose": 1}, "before the commit of another")
def a_client_takes_its_commit_with_it(patch: Patch) -> None:
    """A commit on its way has ended when its client is gone."""

    def abandon(commits: CommitsInFlight, call: Commits, _now_ms: int) -> None:
        for phase in (CommitPhase.ACCEPTED, CommitPhase.SENT):
            for commit in call.in_phase(phase):
                commits._engine.end_commit(commit)

    patch.setattr(CommitsInFlight, "abandon", abandon)


@shows_in({"remove": 1, "restart": 1}, "is given up though nobody else has it")
def whoever_replaces_the_anchor_is_a_successor(patch: Patch) -> None:
    """The late request of a killed gateway takes the group from the next one."""
    real = HostedGroup._on_look

    def on_look(group: HostedGroup, outcome: LookupOutcome, now_ms: int) -> None:
        was_replaced = "FENCED_INSTANCE_ID" in (group.anchor._reported or "")
        if was_replaced and isinstance(outcome, LiveMembers) and outcome.anchored is not None:
            outcome = anchored_group(LOG_ID, 1000, group_id=GROUP)
        real(group, outcome, now_ms)

    patch.setattr(HostedGroup, "_on_look", on_look)


@shows_in({"switch": 1, "fail": 1, "restart": 1}, "does not know its member")
def a_write_in_doubt_counts_as_failed(patch: Patch) -> None:
    """After a write that the log may have, the group goes on with what it knows."""
    real = LoggedEngine.write_failed

    def write_failed(engine: LoggedEngine, damage: Damage, now_ms: int) -> None:
        real(engine, Damage.NONE if damage is Damage.UNSURE else damage, now_ms)

    patch.setattr(LoggedEngine, "write_failed", write_failed)


@shows_in({"leave": 1, "commit": 1, "slow": 1}, "no way leads", consumers=("native",))
def a_leave_of_the_anchor_ends_no_stray(patch: Patch) -> None:
    """A commit whose answer is lost while the anchor leaves never ends."""
    real = Anchor._on_left

    def on_left(anchor: Anchor, *how: object) -> None:
        strays, anchor._strays = anchor._strays, {}
        real(anchor, *how)  # type: ignore[arg-type]
        anchor._strays = strays

    patch.setattr(Anchor, "_on_left", on_left)


@shows_in({"leave": 1, "commit": 1, "slow": 1, "fail": 1}, "no way leads", consumers=("native",))
def a_failed_leave_of_the_anchor_forgets_strays(patch: Patch) -> None:
    """A commit whose answer is lost never ends if the anchor's LeaveGroup fails meanwhile."""
    patch.setattr(Anchor, "_leave_failed", lambda anchor, *_: anchor._cease())


@shows_in(
    {"commit": 1, "lose": 1, "remove": 1, "intrude": 1}, "no way leads", consumers=("native",)
)
def an_anchor_that_gives_way_ends_no_stray(patch: Patch) -> None:
    """A commit whose answer is lost never ends if the anchor gives way to a consumer meanwhile."""
    real = Anchor.on_look

    def on_look(anchor: Anchor, *how: object) -> None:
        strays, anchor._strays = anchor._strays, {}
        real(anchor, *how)  # type: ignore[arg-type]
        anchor._strays = strays

    patch.setattr(Anchor, "on_look", on_look)


@shows_in({"remove": 1, "intrude": 2}, "though somebody else had the group")
def members_outlive_the_loss_of_their_group(patch: Patch) -> None:
    """The group is reported as taken, and its members go on."""
    real = LoggedEngine.note

    def note(engine: LoggedEngine, happening: Happening) -> None:
        if not isinstance(happening, GroupLost):
            real(engine, happening)

    patch.setattr(LoggedEngine, "note", note)


@shows_in(
    {"leave": 1, "start": 1},
    "a and b own",
    consumers=("cooperative", "cooperative"),
    world="temporary",
)
def a_reassigned_slot_is_taken(patch: Patch) -> None:
    """A classic replacement gets at once what another member has for a time."""

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
    {"switch": 1, "remove": 1, "intrude": 2}, "though somebody else had the group", world="intruder"
)
def a_withheld_grant_outlives_the_loss_of_its_group(patch: Patch) -> None:
    """A consumer has the group while an answer waits for the anchor, and it leaves all the same."""

    def supersede(stages: CallStages) -> None:
        for call in stages.by_token.values():
            call.is_superseded |= call.stage is Stage.DECIDING or isinstance(call, Commits)

    patch.setattr(CallStages, "supersede", supersede)


BUGS = [var for var in vars().copy().values() if isinstance(var, Bug)]


def hunt(bug: Bug) -> Report:
    """Explore the bug's world with the bug."""
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        return explore(bug.shape, Bounds(transitions_max=100_000))


def seed_that_finds(bug: Bug) -> int | None:
    """The first of the simulator's seeds that finds the bug."""
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        return next((seed for seed in range(SEEDS) if simulate(seed).invariant), None)


def main(names: list[str]) -> None:
    """Hunt for the bugs and print the table."""
    for bug in BUGS:
        if names and bug.name not in names:
            continue
        report = hunt(bug)
        seed = seed_that_finds(bug)
        moves = len(report.finding.moves) if report.finding else "none"
        found_by = "none" if seed is None else seed
        print(
            f"| `{bug.name}` | {bug.what} | {report.transitions:,} | {moves} | {found_by} |",
            flush=True,
        )
        if names and report.finding:
            print(report.finding.reason, *report.finding.moves, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
