"""The costs of a run."""

from tests.simulation.stage import Stage


def test_only_a_change_of_owner_is_a_move() -> None:
    """The first owner takes partitions without an owner. The second gets half of them."""
    stage = Stage()
    stage.native("n1")
    stage.wait()
    assert stage.world.counts["moves"] == 0
    stage.native("n2")
    stage.wait()
    assert stage.world.counts["moves"] == 2


def test_an_eager_generation_counts_only_changed_owners() -> None:
    """All members revoke everything, and most partitions return to their owners."""
    stage = Stage()
    stage.classic("c1")
    stage.wait()
    stage.classic("c2")
    stage.wait()
    assert stage.world.counts["moves"] == 2


def test_a_static_owner_that_restarts_moves_nothing() -> None:
    """A new process has the same member."""
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
    """Each joining member causes one, in both protocols. A conversion takes over the target."""
    native, classic = Stage(), Stage()
    for name in ("one", "two"):
        native.native(name)
        classic.classic(name)
        native.wait()
        classic.wait()
    assert native.world.counts["rebalances"] == 2
    assert classic.world.counts["rebalances"] == 2
