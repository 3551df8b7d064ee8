"""Classic clients behave like the Java client (rule 12.2)."""

from typing import Any

from coordinator.group.classic_group import ClassicGroup
from tests.simulation.classic_client import Phase
from tests.simulation.stage import Stage


def test_the_leader_assigns_and_all_settle() -> None:
    """With only classic clients the group is classic."""
    stage = Stage()
    clients = [stage.classic(f"c{n}") for n in range(3)]
    stage.wait(10_000)
    assert isinstance(stage.driver.engine.state.group, ClassicGroup)
    assert all(client.is_settled for client in clients)
    assert sorted(len(client.claims) for client in clients) == [1, 1, 2]


def test_an_eager_client_revokes_everything_before_it_joins() -> None:
    """A cooperative client keeps its partitions and continues to consume."""
    for is_cooperative in (False, True):
        stage = Stage()
        how: dict[str, Any] = {
            "is_cooperative": is_cooperative,
            "protocols": ("cooperative-sticky",),
        }
        first = stage.classic("c1", **how)
        stage.wait()
        stage.classic("c2", **how)
        fewest = 4
        while len(stage.clients[1].claims) < 2:
            stage.wait(10)
            fewest = min(fewest, len(first.claims))
        assert fewest == (2 if is_cooperative else 0)


def test_a_leader_rejoins_when_a_topic_grows() -> None:
    """In a classic group only the leader watches the topics."""
    stage = Stage()
    client = stage.classic("c1")
    stage.wait()
    stage.cluster.grow("foo")
    stage.wait()
    assert set(client.claims) == stage.foo(0, 1, 2, 3, 4)


def test_an_unknown_member_loses_everything_and_rejoins() -> None:
    """This holds even during a callback."""
    stage = Stage()
    client = stage.classic("c1", callback_ms=400)
    stage.wait()
    client.freeze()
    stage.wait(10_000)
    client.thaw()
    stage.wait(100)
    assert client.phase is not Phase.STABLE
    stage.wait()
    assert client.is_settled
    assert set(client.claims) == stage.foo(0, 1, 2, 3)


def test_a_closing_dynamic_client_leaves() -> None:
    """A static client does not: it remains a member until its session ends."""
    for instance_id in (None, "i1"):
        stage = Stage()
        client = stage.classic("c1", instance_id=instance_id)
        stage.wait()
        client.close()
        stage.wait(1_000)
        group = stage.driver.engine.state.group
        assert client.is_dead
        assert group is not None
        assert len(group.members) == (instance_id is not None)
