"""A small world plays the shipped machine, and notices broken promises."""

from dataclasses import replace

import pytest

from coordinator.interface.records import MemberMetadata, RemovalCause
from gateway.hosting.anchor import Anchor
from gateway.hosting.group import HostedGroup
from tests.simulation.explorer.beginning import begin_hosted
from tests.simulation.explorer.checks import check
from tests.simulation.explorer.moves import free_moves, make
from tests.simulation.explorer.promises import BrokenPromiseError
from tests.simulation.explorer.small_consumers import Kind
from tests.simulation.explorer.small_world import World
from tests.simulation.explorer.worlds import WORLDS

MOVES_MAX = 300


def settle(world: World) -> None:
    for _ in range(MOVES_MAX):
        if world.is_at_rest():
            return
        make(world, free_moves(world)[0])
        check(world)
    raise AssertionError("no rest")


@pytest.fixture
def world() -> World:
    budgets = dict.fromkeys(("commit", "switch", "restart", "remove", "lose", "crash", "late"), 3)
    return begin_hosted(replace(WORLDS["commit"], budgets=budgets))


def test_a_world_at_rest_has_shared_out_its_partitions(world: World) -> None:
    claims = [each.claims for each in world.consumers.values() if each is not None]
    assert sorted(map(len, claims)) == [1, 1]
    assert claims[0].isdisjoint(claims[1])
    assert "a (cooperative) has [0]" in str(world)


def test_a_switch_ends_with_a_fair_share_under_the_other_protocol(world: World) -> None:
    make(world, "switch a")
    settle(world)
    assert "a (native) has" in str(world)


def test_a_commit_is_stored_and_acknowledged(world: World) -> None:
    before = list(world.cluster.offsets)
    make(world, "commit b")
    make(world, "store b")
    assert sum(world.cluster.offsets) == sum(before) + 1
    assert [*world.acknowledged.values()] == [max(world.cluster.offsets)]


def test_a_lost_commit_may_still_land_until_the_anchor_has_another_id(world: World) -> None:
    make(world, "commit b")
    make(world, "lose-stray b")
    assert world.cluster.strays
    settle(world)
    assert not world.cluster.strays


def test_a_restart_keeps_the_members(world: World) -> None:
    make(world, "restart")
    settle(world)
    assert world.runs == 2


def test_a_late_answer_is_heard_later(world: World) -> None:
    make(world, "wait")
    while "send b" not in free_moves(world):
        make(world, next(each for each in free_moves(world) if each != "send a"))
    make(world, "late-answer b")
    assert "hear b" in free_moves(world)
    make(world, "hear b")
    assert "b" not in world.questions


def test_a_crashed_consumer_is_replaced_by_the_other(world: World) -> None:
    make(world, "crash a")
    settle(world)
    assert "b (native) has [0, 1]" in str(world)


def test_an_exception_of_the_machine_breaks_a_promise(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(HostedGroup, "take_at_rest", fail)
    with pytest.raises(BrokenPromiseError, match="planted"):
        make(world, "commit b")


def test_a_grant_without_a_confirmed_anchor_breaks_a_promise(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Anchor, "confirm", lambda _anchor: -1)
    make(world, "crash a")
    with pytest.raises(BrokenPromiseError, match="anchor in doubt"):
        settle(world)


def test_an_unknown_move_is_an_error(world: World) -> None:
    with pytest.raises(ValueError, match="jump"):
        make(world, "jump")
    with pytest.raises(KeyError):
        make(world, "answer Nothing")


def test_members_of_a_taken_group_own_nothing_until_they_learn_it(world: World) -> None:
    """DEV D36."""
    make(world, "remove")
    world.budgets["intrude"] = 1
    make(world, "intrude")
    b = world.consumers["b"]
    assert b is not None
    assert any(world.owns(b, number) for number in (0, 1))
    for _ in range(MOVES_MAX):
        if not world.owns(b, 0) and not world.owns(b, 1):
            break
        make(world, free_moves(world)[0])
        check(world)
    assert b.claims


def test_a_member_that_does_not_revoke_in_time_owns_nothing_from_then_on(world: World) -> None:
    b = world.consumers["b"]
    assert b is not None
    removal = MemberMetadata(
        member_id=b.member_id, value=None, cause=RemovalCause.REVOCATION_TIMED_OUT
    )
    world._write((removal,))
    b.rest()
    assert b.claims
    assert not any(world.owns(b, number) for number in (0, 1))


def test_an_anchor_that_was_removed_twice_may_give_its_group_up() -> None:
    """As many generations begin as with a consumer (found by switch=1,slow=2)."""
    world = begin_hosted(replace(WORLDS["switch"], budgets={"switch": 1, "slow": 2}))
    moves = ["switch a", "send a", "send b", "slow", *["answer AskCoordinator"] * 2, "slow"]
    moves += ["answer Write", "answer AskCoordinator", "answer Write", "return a", "send a"]
    for move in (*moves, "wait", "send a"):
        make(world, move)
    assert world.positions["b"]
    make(world, "answer AskCoordinator")
    settle(world)


def test_members_go_on_until_the_log_has_taken_the_loss_of_their_group() -> None:
    """Nobody can be fenced while it fails (found by commit=1,remove=1,intrude=2,fail=1)."""
    budgets = {"remove": 1, "intrude": 2, "fail": 1}
    native = (("a", Kind.NATIVE),)
    world = begin_hosted(replace(WORLDS["intruder"], consumers=native, budgets=budgets))
    for move in ("tick", "remove", "answer AskCoordinator", "intrude", "withdraw"):
        make(world, move)
    for move in ("answer AskCoordinator", "send a", "fail Write"):
        make(world, move)
    a = world.consumers["a"]
    assert a is not None
    assert a.epoch > 0
    settle(world)


def test_a_killed_gateway_may_take_its_knowledge_of_a_loss_with_it() -> None:
    """Nobody can notice a consumer that has left again by then (DEV D36)."""
    budgets = {"remove": 1, "intrude": 2, "restart": 1}
    native = (("a", Kind.NATIVE),)
    world = begin_hosted(replace(WORLDS["intruder"], consumers=native, budgets=budgets))
    for move in ("tick", "remove", "answer AskCoordinator", "intrude", "withdraw"):
        make(world, move)
    for move in ("answer AskCoordinator", "restart"):
        make(world, move)
    settle(world)
    a = world.consumers["a"]
    assert a is not None
    assert a.claims
