"""The canonical form: equal for worlds that differ in names and times only."""

import re
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Never

import pytest

from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import Call
from gateway.hosting.group_routing import FORWARDED_FOR_MS, FOUND_FREE_FOR_MS, GroupRouting
from gateway.hosting.states import STAGES, Stage
from tests.simulation.explorer import canonical as canonical_form
from tests.simulation.explorer.beginning import begin
from tests.simulation.explorer.canonical import canonical, digest
from tests.simulation.explorer.copies import copy, restore
from tests.simulation.explorer.moves import free_moves, make, moves_of
from tests.simulation.explorer.playing import play
from tests.simulation.explorer.search import Bounds, explore
from tests.simulation.explorer.small_world import Move, World
from tests.simulation.explorer.worlds import WORLDS
from tests.support.hypothesis_profile import thinned_out

ROOT = Path(__file__).parents[3]


def around(world: World) -> None:
    """Let everyone send a heartbeat."""
    make(world, "wait")
    while not world.is_at_rest() or set(free_moves(world)) - {"wait"}:
        make(world, free_moves(world)[0])


def test_a_round_of_heartbeats_leads_back() -> None:
    world = begin(WORLDS["switch"])
    around(world)
    before, at_ms, token = digest(world), world.now_ms, world.next_token
    around(world)
    assert digest(world) == before
    assert (world.now_ms, world.next_token) > (at_ms, token)


def test_a_commit_leads_back() -> None:
    """Offsets are relative to the committed ones."""
    world = begin(WORLDS["commit"])
    world.budgets["commit"] = 9
    for _ in range(2):
        make(world, "commit b")
        make(world, "store b")
        world.budgets["commit"] = 9
    before = canonical(world)
    make(world, "commit b")
    make(world, "store b")
    world.budgets["commit"] = 9
    assert canonical(world) == before


def test_a_member_that_leaves_and_returns_leads_back() -> None:
    """Epochs and ids are relative."""
    world = begin(WORLDS["switch"])
    forms = set()
    for _ in range(6):
        world.budgets["switch"] = 1
        make(world, "switch b")
        while not world.is_at_rest():
            make(world, free_moves(world)[0])
        around(world)
        forms.add(digest(world))
    assert len(forms) == 2


@pytest.mark.simulation
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("world", "budgets"),
    [
        *(("slot", {}), ("intruder", {}), ("upgrade", {}), ("adopt-whole", {})),
        ("release-native-restart", {"leave": 1}),
    ],
)
def test_worlds_of_one_form_continue_alike(world: str, budgets: dict[str, int]) -> None:
    """The search continues only the first of two worlds with equal forms."""
    shape = WORLDS[world]
    shape = replace(shape, budgets={**shape.budgets, **budgets})
    following: dict[bytes, dict[Move, bytes]] = {}
    todo, merged = deque([copy(begin(shape))]), 0
    while todo and len(following) < 800:
        saved = todo.popleft()
        here, after, reached = restore(saved), {}, []
        for move in moves_of(here)[0]:
            there = restore(saved)
            make(there, move)
            after[move] = digest(there)
            reached.append(copy(there))
        known = following.setdefault(digest(here), after)
        assert known == after
        if known is after:
            todo += reached
        else:
            merged += 1
    assert merged > 50


@pytest.mark.parametrize("world", thinned_out(["commit", "intruder", "restart", "adopt-whole"]))
def test_no_call_of_a_world_asks_who_left_an_anchor_behind(
    world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Therefore the form leaves out whether a look has seen an anchor."""

    def is_left_behind(*_: object) -> Never:
        raise AssertionError("an anchor in the verdict counts")

    monkeypatch.setattr(GroupRouting, "is_left_behind", is_left_behind)
    report = explore(WORLDS[world], Bounds(transitions_max=500))
    assert report.finding is None


@pytest.mark.parametrize(
    ("field", "read_in"),
    [
        ("has_look", {Stage.PLACING, Stage.CHECKING, Stage.LOOKING}),
        ("was_held", {Stage.DECIDING}),
    ],
)
def test_what_no_later_stage_of_a_call_reads_does_not_count(
    field: str, read_in: set[Stage]
) -> None:
    world = begin(WORLDS["switch"])
    call = Call(api=GroupApi.JOIN, event=None, token=world.next_token)
    world.port.group.calls.by_token[call.token] = call
    for call.stage in Stage:
        forms = set()
        for value in (False, True):
            setattr(call, field, value)
            forms.add(digest(world))
        assert (len(forms) == 2) == (not read_in.isdisjoint(ahead_of(call.stage))), call.stage


def ahead_of(stage: Stage) -> set[Stage]:
    """The stage, and those that may follow."""
    stages, todo = {stage}, [stage]
    while todo:
        new = STAGES[todo.pop()] - stages
        stages |= new
        todo += new
    return stages


def test_a_look_stays_valid_longer_for_a_forwarded_group() -> None:
    """A forwarded group is looked at again after a longer time than one that was found free."""
    world = begin(WORLDS["intruder"])
    routing = world.port.group.routing
    world.now_ms += 1

    def is_told_apart(age_ms: int, older_ms: int) -> bool:
        forms = set()
        for routing.seen_ms in (world.now_ms - age_ms, world.now_ms - older_ms):
            forms.add(digest(world))
        return len(forms) == 2

    assert is_told_apart(FOUND_FREE_FOR_MS - 1, FOUND_FREE_FOR_MS)
    assert not is_told_apart(FOUND_FREE_FOR_MS, FORWARDED_FOR_MS)
    routing.forward("a consumer is in the group", world.now_ms)
    assert is_told_apart(FOUND_FREE_FOR_MS, FORWARDED_FOR_MS - 1)
    assert is_told_apart(FORWARDED_FOR_MS - 1, FORWARDED_FOR_MS)
    assert not is_told_apart(FORWARDED_FOR_MS, FORWARDED_FOR_MS + 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda world: play(world, "remove"),
        lambda world: world.offsets.__setitem__(0, world.offsets[0] + 1),
        lambda world: world.budgets.__setitem__("switch", 0),
        lambda world: setattr(world, "log", world.log[1:]),
        lambda world: setattr(world.port.group.anchor, "wants_look", True),
        lambda world: world.port.group.anchor._member.hurry(world.now_ms + 77),
        lambda world: setattr(world.consumers["b"], "states_owned", True),
        lambda world: setattr(world.consumers["b"], "epoch", 1),
        lambda world: world.here.state.deadlines.clear(),
        lambda world: setattr(world, "now_ms", world.now_ms + 1),
    ],
)
def test_what_matters_makes_another_form(change: Callable[[World], None]) -> None:
    world = begin(WORLDS["switch"])
    before = digest(world)
    change(world)
    assert digest(world) != before


def test_every_name_that_is_special_is_that_of_a_field() -> None:
    """A field that is renamed would count again, and the same world have more states."""
    folders = ("coordinator", "gateway/hosting", "gateway/events", "tests/simulation")
    sources = [path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    words = set(re.findall(r"\w+", "".join(text for text in sources if "_INDEXES = {" not in text)))
    of_classes = {name for pair in canonical_form._OF_CLASSES for name in pair}
    of_names = {*canonical_form._OF_NAMES, *canonical_form._BACK_MS, *canonical_form._DROPPED}
    assert (of_classes | of_names | canonical_form._INDEXES) - words == set()
