"""A consumer that bypasses the gateway talks to the cluster itself."""

from dataclasses import replace

from tests.support.simulation import PEACEFUL, Stage


def test_an_outsider_joins_a_forwarded_group() -> None:
    stage = Stage(plan=replace(PEACEFUL, hosts_all=False))
    inside = stage.classic("c1")
    outside = stage.classic("c2", bypasses=True)
    stage.wait(10_000)
    assert len(inside.claims) == len(outside.claims) == 2
    assert outside.is_settled
    outside.close()
    stage.wait(10_000)
    assert len(inside.claims) == 4


def test_an_outsider_is_refused_by_the_anchor() -> None:
    stage = Stage()
    stage.classic("c1")
    stage.wait()
    outside = stage.classic("c2", bypasses=True)
    stage.wait()
    assert outside.is_dead


def test_an_outsider_reconnects() -> None:
    stage = Stage(plan=replace(PEACEFUL, hosts_all=False))
    outside = stage.classic("c1", bypasses=True)
    stage.wait()
    outside.lose_connection()
    stage.wait()
    assert outside.is_settled
