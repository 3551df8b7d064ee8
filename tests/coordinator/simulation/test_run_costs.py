"""What a run costs the group."""

from tests.support.simulation import Stage


def test_a_partition_moves_to_another_owner_only() -> None:
    """The first owner has it from nobody; the second one gets half of what the first one had."""
    stage = Stage()
    stage.native("n1")
    stage.wait()
    assert stage.world.counts["moves"] == 0
    stage.native("n2")
    stage.wait()
    assert stage.world.counts["moves"] == 2


def test_an_eager_generation_moves_what_another_gets() -> None:
    """All give everything up, and most get the same again."""
    stage = Stage()
    stage.classic("c1")
    stage.wait()
    stage.classic("c2")
    stage.wait()
    assert stage.world.counts["moves"] == 2


def test_a_static_owner_that_restarts_moves_nothing() -> None:
    """It is the same member, in another process."""
    stage = Stage()
    before = stage.native("n1", instance_id="one")
    stage.wait()
    before.close()
    stage.wait()
    after = stage.native("n2", instance_id="one")
    stage.wait()
    assert set(after.claims) == stage.foo(0, 1, 2, 3)
    assert stage.world.counts["moves"] == 0


def test_targets_and_generations_are_rebalances() -> None:
    """One for each member that comes, in both protocols; a conversion takes its target over."""
    native, classic = Stage(), Stage()
    for name in ("one", "two"):
        native.native(name)
        classic.classic(name)
        native.wait()
        classic.wait()
    assert native.world.counts["rebalances"] == 2
    assert classic.world.counts["rebalances"] == 2
