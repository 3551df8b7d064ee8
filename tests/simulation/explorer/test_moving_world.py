"""A world in which a group moves, move by move."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator.group.consumer_group import ConsumerGroup
from gateway.hosting.states import AdoptionStage, Mode, ReleaseStage
from tests.simulation.explorer.beginning import begin_moving
from tests.simulation.explorer.checks import check
from tests.simulation.explorer.moves import free_moves
from tests.simulation.explorer.moving_world import UNOWNED_MAX_MS, MovingWorld, is_anchor
from tests.simulation.explorer.promises import BrokenPromiseError
from tests.simulation.explorer.shape import Shape
from tests.simulation.explorer.small_consumers import Kind
from tests.simulation.explorer.worlds import WORLDS

MOVES_MAX = 300
SLOW = replace(WORLDS["adopt"], is_slow=True)


def play(world: MovingWorld, *moves: str) -> None:
    for move in moves:
        assert move.partition(" ")[0] not in ("answer", "hear") or move in free_moves(world)
        world.play(move)
        check(world)


def play_on(world: MovingWorld, is_enough: Callable[[MovingWorld], bool]) -> None:
    """Let everything go on until the condition holds."""
    for _ in range(MOVES_MAX):
        if is_enough(world):
            return
        play(world, free_moves(world)[0])
    raise AssertionError(f"it does not come to that: {world}")


def to_rest(world: MovingWorld) -> None:
    play_on(world, MovingWorld.is_at_rest)


def to_stage(world: MovingWorld, stage: AdoptionStage | ReleaseStage) -> None:
    play_on(world, lambda world: world.port.stage is stage)


def begin(name: str, **changes: object) -> MovingWorld:
    shape: Shape = WORLDS[name]
    return begin_moving(replace(shape, **changes))  # type: ignore[arg-type]


def is_hosted(world: MovingWorld) -> bool:
    return world.port.is_live and world.is_anchored


# -- adoption --------------------------------------------------------------------------------------


def test_the_cluster_serves_a_group_that_may_be_adopted() -> None:
    world = begin("adopt")
    assert world.is_at_rest()
    assert not world.port.is_live
    assert len(world.describe().members) == 2


def test_the_first_request_after_a_restart_needs_a_look() -> None:
    world = begin_moving(SLOW)
    play(world, "restart")
    play_on(world, lambda world: "Look" in world.pending)
    play(world, "answer Look")
    assert world.port.group.standing.verdict.mode is Mode.FORWARDED
    to_rest(world)


def test_consumers_keep_members_and_partitions_in_an_adoption() -> None:
    world = begin("adopt")
    running = [consumer for consumer in world.consumers.values() if consumer is not None]
    before = {consumer.member_id: set(consumer.claims) for consumer in running}
    play(world, "adopt")
    to_rest(world)
    assert is_hosted(world)
    assert {consumer.member_id: consumer.claims for consumer in running} == before
    (anchor,) = world.describe().members
    assert is_anchor(anchor.member_id)


def test_a_commit_waits_while_calls_are_held() -> None:
    world = begin("adopt")
    play(world, "adopt")
    to_stage(world, AdoptionStage.LOCKING)
    play(world, "commit a")
    assert world.sendings["a"].route == "held"
    to_rest(world)
    assert is_hosted(world)
    assert world.acknowledged


def test_calls_are_not_held_before_relayed_ones_are_answered() -> None:
    world = begin("adopt")
    play(world, "commit a", "adopt")
    play_on(world, lambda world: "Hold" in world.pending or free_moves(world)[0] == "store a")
    assert "answer Hold" not in free_moves(world)
    play(world, "store a")
    assert "answer Hold" in free_moves(world)


def test_an_outsider_ends_the_adoption_by_an_ordinary_rebalance() -> None:
    world = begin("adopt-outsider")
    play(world, "adopt")
    to_stage(world, AdoptionStage.RELEASING)
    play(world, "start o", "send o", "send o")
    to_rest(world)
    assert not world.port.is_live
    assert len(world.describe().members) == 3


@pytest.mark.parametrize(
    ("stage", "goes_on"), [(AdoptionStage.RELEASING, False), (AdoptionStage.ANCHORING, True)]
)
def test_the_next_process_goes_on_with_the_adoption_in_the_log(
    stage: AdoptionStage, goes_on: bool
) -> None:
    world = begin("adopt")
    play(world, "adopt")
    to_stage(world, stage)
    play(world, "restart")
    assert world.port.is_moving
    play_on(world, lambda world: not world.port.is_moving)
    assert is_hosted(world) == goes_on
    to_rest(world)


# -- release ---------------------------------------------------------------------------------------


def test_the_gateway_hosts_a_group_that_may_be_released() -> None:
    world = begin("release")
    assert world.is_at_rest()
    assert is_hosted(world)
    assert world.may_release


def test_released_members_come_back_in_one_generation() -> None:
    world = begin("release")
    play(world, "release")
    play_on(world, lambda world: not world.port.is_moving)
    generation = world.generation
    to_rest(world)
    assert not world.port.is_live
    assert world.generation == generation
    assert len(world.describe().members) == 2


def test_the_anchor_stays_until_a_commit_is_answered() -> None:
    world = begin("release")
    play(world, "commit a", "release")
    for _ in range(MOVES_MAX):
        moves = [move for move in free_moves(world) if not move.startswith("store")]
        if world.port.stage is not ReleaseStage.RECALLING and world.port.stage is not None:
            raise AssertionError("the anchor is gone")
        if not moves:
            break
        play(world, moves[0])
    assert world.storing() == ["a"]
    to_rest(world)
    assert world.acknowledged


@pytest.mark.parametrize("stage", [ReleaseStage.ANNOUNCING, ReleaseStage.GATHERING])
def test_the_next_process_goes_on_with_the_release_in_the_log(stage: ReleaseStage) -> None:
    world = begin("release")
    play(world, "release")
    to_stage(world, stage)
    play(world, "restart")
    assert world.port.is_moving
    to_rest(world)
    assert not world.port.is_live


def test_a_native_consumer_revokes_here_and_comes_back_in_the_cluster() -> None:
    world = begin("release-native")
    play(world, "release")
    to_stage(world, ReleaseStage.LEAVING)
    assert not any(consumer.claims for consumer in world.consumers.values() if consumer is not None)
    to_rest(world)
    group = world.upstream.state
    assert isinstance(group, ConsumerGroup)
    assert group.native_count == 1
    assert len(group.members) == 2


def test_a_released_group_may_be_adopted_again() -> None:
    world = begin("release")
    play(world, "release")
    to_rest(world)
    play(world, "adopt")
    to_rest(world)
    assert is_hosted(world)


def test_an_outsider_joins_the_round_of_a_release() -> None:
    world = begin("release-outsider")
    play(world, "release")
    to_stage(world, ReleaseStage.GATHERING)
    play(world, "start o")
    to_rest(world)
    assert len(world.describe().members) == 3


def test_a_client_of_librdkafka_sends_its_join_without_id_twice() -> None:
    """The second one waits on the connection for the answer to the first."""
    world = begin("release", consumers=(("a", Kind.LIBRDKAFKA), ("b", Kind.LIBRDKAFKA)))
    play(world, "release")
    play_on(world, lambda world: bool(world.repeated))
    (first,) = world.repeated
    (name,) = (passing.name for token, passing in world.passing.items() if token == first)
    assert world.asked[name] not in world.passing
    play_on(world, lambda world: world.asked.get(name) in world.passing)


def test_a_request_whose_client_hangs_up_stays_with_the_gateway() -> None:
    world = begin("release")
    play(world, "release")
    play_on(world, lambda world: bool(world.passing) and bool(world.asked))
    (name,) = world.asked
    play(world, f"hang-up {name}")
    assert world.passing
    assert not world.asked


# -- promises --------------------------------------------------------------------------------------


def test_a_rebalance_that_nothing_excuses_breaks_the_promise() -> None:
    world = begin("adopt")
    consumer = world.consumers["a"]
    assert consumer is not None
    consumer.member_id = "unknown"
    consumer.go_on(world.now_ms)
    with pytest.raises(BrokenPromiseError, match="a sees UNKNOWN_MEMBER_ID"):
        play(world, "send a")


def test_two_owners_break_the_promise() -> None:
    world = begin("adopt")
    a, b = world.consumers["a"], world.consumers["b"]
    assert a is not None
    assert b is not None
    a.claims |= b.claims
    with pytest.raises(BrokenPromiseError, match="a and b own 1"):
        check(world)


def test_a_lost_commit_breaks_the_promise() -> None:
    world = begin("adopt")
    world.acknowledged[0] = world.offsets[0] + 1
    with pytest.raises(BrokenPromiseError, match="1 records of 0 are lost"):
        check(world)


def test_a_partition_without_owner_breaks_the_promise() -> None:
    world = begin("adopt")
    world.unowned_ms[1] = world.now_ms - UNOWNED_MAX_MS
    check(world)
    world.unowned_ms[1] -= 1
    with pytest.raises(BrokenPromiseError, match="1 has no owner"):
        check(world)


def test_consumers_beside_the_gateway_do_not_run_at_first() -> None:
    world = begin("adopt", beside=(("o", Kind.EAGER),))
    assert world.behind == ["a", "b"]
    assert world.consumers["o"] is None
