"""The behaviour that all clients share."""

from tests.support.simulation import Stage


def test_an_owner_starts_at_the_committed_offset() -> None:
    """It fetches, consumes and commits. The next owner starts where it stopped."""
    stage = Stage()
    first = stage.native("n1")
    stage.wait()
    committed = dict(stage.cluster.offsets)
    assert committed.keys() == stage.foo(0, 1, 2, 3)
    first.close()
    stage.wait()
    assert first.is_dead
    handed_over = dict(stage.cluster.offsets)
    assert all(handed_over[p] > committed[p] for p in committed)
    second = stage.native("n2")
    stage.wait(1_000)
    positions = {p: claim.position for p, claim in second.claims.items()}
    assert positions == handed_over


def test_a_frozen_process_catches_up_after_the_thaw() -> None:
    """It keeps its claims, then receives the answers that it missed."""
    stage = Stage()
    sleeper, other = stage.native("n1"), stage.native("n2")
    stage.wait()
    owned = set(sleeper.claims)
    sleeper.freeze()
    stage.wait(12_000)
    assert set(sleeper.claims) == owned
    assert set(other.claims) == stage.foo(0, 1, 2, 3)
    assert stage.world.counts["stale ms"] > 0
    sleeper.thaw()
    stage.wait()
    assert len(sleeper.claims) == len(other.claims) == 2


def test_a_dead_process_owns_nothing() -> None:
    """It does nothing more."""
    stage = Stage()
    client = stage.native("n1")
    stage.wait()
    client.die("killed")
    requests = stage.world.counts["requests"]
    stage.wait()
    assert not client.claims
    assert stage.world.counts["requests"] == requests
