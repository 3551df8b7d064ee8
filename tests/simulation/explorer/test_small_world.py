"""A small world models what clients, brokers and faults do, and notices broken promises."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator.interface.records import MemberMetadata, RemovalCause
from gateway.hosting.group import HostedGroup
from gateway.hosting.states import AdoptionStage, ReleaseStage
from tests.simulation.explorer.beginning import begin
from tests.simulation.explorer.carrying_out import write
from tests.simulation.explorer.checks import check
from tests.simulation.explorer.moves import free_moves, make
from tests.simulation.explorer.numbers import is_anchor
from tests.simulation.explorer.promises import BrokenPromiseError
from tests.simulation.explorer.small_consumers import SESSION_TIMEOUT_MS, Consumer, Kind
from tests.simulation.explorer.small_world import UNOWNED_MAX_MS, World
from tests.simulation.explorer.worlds import WORLDS

MOVES_MAX = 300
ALONE = (("a", Kind.NATIVE),)


def world_of(name: str, **changes: object) -> World:
    return begin(replace(WORLDS[name], **changes))  # type: ignore[arg-type]


def play(world: World, *moves: str) -> None:
    for move in moves:
        assert move.partition(" ")[0] not in ("answer", "hear") or move in free_moves(world)
        make(world, move)
        check(world)


def play_on(world: World, is_enough: Callable[[World], bool]) -> None:
    """Let everything continue until the condition holds."""
    for _ in range(MOVES_MAX):
        if is_enough(world):
            return
        play(world, free_moves(world)[0])
    raise AssertionError(f"it does not come to that: {world}")


def to_rest(world: World) -> None:
    play_on(world, World.is_at_rest)


def consumer(world: World, name: str) -> Consumer:
    running = world.consumers[name]
    assert running is not None
    return running


# -- what clients and brokers do -------------------------------------------------------------------


def test_a_late_answer_is_heard_later() -> None:
    world = world_of("switch", budgets={"late": 1})
    play(world, "wait")
    while "send b" not in free_moves(world):
        play(world, next(move for move in free_moves(world) if move != "send a"))
    play(world, "late-answer b")
    assert "hear b" in free_moves(world)
    play(world, "hear b")
    assert "b" not in world.asked


def test_a_lost_commit_may_still_land_until_the_anchor_has_another_id() -> None:
    world = world_of("stray")
    play(world, "commit b", "lose-stray b")
    assert world.strays
    to_rest(world)
    assert not world.strays


def test_calls_are_not_held_before_relayed_ones_are_answered() -> None:
    world = world_of("adopt")
    play(world, "commit a", "adopt")
    play_on(world, lambda world: "Hold" in world.pending or free_moves(world)[0] == "store a")
    assert "answer Hold" not in free_moves(world)
    play(world, "store a")
    assert "answer Hold" in free_moves(world)


def test_an_outsider_ends_the_adoption_by_an_ordinary_rebalance() -> None:
    world = world_of("adopt-outsider")
    play_on(world, lambda world: world.port.stage is AdoptionStage.RELEASING)
    play(world, "start o", "send o", "send o")
    to_rest(world)
    assert not world.port.is_live
    assert len(world.describe().members) == 3


def test_an_adoption_whose_request_is_late_may_end_by_a_rebalance() -> None:
    world = world_of("adopt-late")
    play_on(world, lambda world: world.port.stage is AdoptionStage.REJOINING)
    play(world, "delay leader")
    to_rest(world)
    assert not world.port.is_live


def test_a_group_may_be_adopted_and_released_again() -> None:
    world = world_of("adopt", budgets={"adopt": 1, "release": 1})
    assert len(world.describe().members) == 2
    play(world, "adopt")
    to_rest(world)
    (anchor,) = world.describe().members
    assert is_anchor(anchor.member_id)
    play(world, "release")
    to_rest(world)
    assert not world.port.is_live
    assert len(world.describe().members) == 2


def test_a_client_of_librdkafka_sends_its_join_without_id_twice() -> None:
    """The second one waits on the connection for the answer to the first."""
    world = world_of("release", consumers=(("a", Kind.LIBRDKAFKA), ("b", Kind.LIBRDKAFKA)))
    play(world, "release")
    play_on(world, lambda world: bool(world.repeated))
    (first,) = world.repeated
    (name,) = (passing.name for token, passing in world.passing.items() if token == first)
    assert world.asked[name] not in world.passing
    play_on(world, lambda world: world.asked.get(name) in world.passing)


def test_a_request_whose_client_hangs_up_stays_with_the_gateway() -> None:
    world = world_of("release", budgets={"release": 1, "hang-up": 1})
    play(world, "release")
    play_on(world, lambda world: bool(world.passing) and bool(world.asked))
    (name,) = world.asked
    play(world, f"hang-up {name}")
    assert world.passing
    assert not world.asked


def test_a_consumer_may_sleep_for_less_than_a_session() -> None:
    world = world_of("release-librdkafka", budgets={"sleep": 9})
    play_on(world, lambda world: world.may_sleep())
    before_ms = world.now_ms
    play(world, "sleep")
    assert before_ms < world.now_ms < before_ms + SESSION_TIMEOUT_MS
    assert not world.may_wait()


# -- promises --------------------------------------------------------------------------------------


def test_an_exception_of_the_machine_breaks_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("planted")

    world = world_of("stray")
    monkeypatch.setattr(HostedGroup, "take_at_rest", fail)
    with pytest.raises(BrokenPromiseError, match="planted"):
        play(world, "commit b")


def test_a_rebalance_that_nothing_excuses_breaks_a_promise() -> None:
    world = world_of("adopt")
    consumer(world, "a").member_id = "unknown"
    consumer(world, "a").go_on(world.now_ms)
    with pytest.raises(BrokenPromiseError, match="a sees UNKNOWN_MEMBER_ID"):
        play(world, "send a")


def test_a_partition_without_owner_breaks_a_promise() -> None:
    world = world_of("adopt")
    world.unowned_ms[1] = world.now_ms - UNOWNED_MAX_MS
    check(world)
    world.unowned_ms[1] -= 1
    with pytest.raises(BrokenPromiseError, match="1 has no owner"):
        check(world)


def test_members_of_a_taken_group_own_nothing_until_they_learn_it() -> None:
    """DEV D36."""
    world = world_of("intruder")
    b = consumer(world, "b")
    play(world, "remove", "intrude")
    assert any(world.owns(b, number) for number in (0, 1))
    play_on(world, lambda world: not any(world.owns(b, number) for number in (0, 1)))
    assert b.claims


def test_a_member_that_does_not_revoke_in_time_owns_nothing_from_then_on() -> None:
    world = world_of("switch")
    b = consumer(world, "b")
    cause = RemovalCause.REVOCATION_TIMED_OUT
    write(world, (MemberMetadata(member_id=b.member_id, value=None, cause=cause),))
    b.rest()
    assert b.claims
    assert not any(world.owns(b, number) for number in (0, 1))


def test_an_anchor_that_was_removed_twice_may_give_its_group_up() -> None:
    """The number of generations is that with a consumer (found by switch=1,slow=2)."""
    world = world_of("switch", budgets={"switch": 1, "slow": 2})
    moves = ["switch a", "send a", "send b", "slow", *["answer AskCoordinator"] * 2, "slow"]
    moves += ["answer Write", "answer AskCoordinator", "answer Write", "return a", "send a"]
    play(world, *moves, "wait", "send a")
    assert world.positions["b"]
    play(world, "answer AskCoordinator")
    to_rest(world)


def test_members_continue_until_the_log_has_taken_the_loss_of_their_group() -> None:
    """The gateway can fence nobody while it fails (found by commit=1,remove=1,intrude=2,fail=1)."""
    budgets = {"remove": 1, "intrude": 2, "fail": 1}
    world = world_of("intruder", consumers=ALONE, budgets=budgets)
    play(world, "tick", "remove", "answer AskCoordinator", "intrude", "withdraw")
    play(world, "answer AskCoordinator", "send a", "fail Write")
    assert consumer(world, "a").epoch > 0
    to_rest(world)


def test_a_killed_gateway_may_take_its_knowledge_of_a_loss_with_it() -> None:
    """Nothing shows a consumer that has left again by then (DEV D36)."""
    budgets = {"remove": 1, "intrude": 2, "restart": 1}
    world = world_of("intruder", consumers=ALONE, budgets=budgets)
    play(world, "tick", "remove", "answer AskCoordinator", "intrude", "withdraw")
    play(world, "answer AskCoordinator", "restart")
    to_rest(world)
    assert consumer(world, "a").claims


def test_consumers_that_bypass_the_gateway_do_not_run_at_first() -> None:
    world = world_of("adopt", beside=(("o", Kind.EAGER),))
    assert world.behind == ["a", "b"]
    assert world.consumers["o"] is None


@pytest.mark.parametrize("stage", [ReleaseStage.ANNOUNCING, ReleaseStage.GATHERING])
def test_the_next_process_continues_with_the_release_in_the_log(stage: ReleaseStage) -> None:
    world = world_of("release", budgets={"release": 1, "restart": 1})
    play(world, "release")
    play_on(world, lambda world: world.port.stage is stage)
    play(world, "restart")
    assert world.port.is_moving
    to_rest(world)
    assert not world.port.is_live
