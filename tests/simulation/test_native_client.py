"""Native clients behave like the Java client (rule 12.3)."""

from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.events import ConsumerHeartbeatReceived
from tests.simulation.stage import Stage


def heartbeats(stage: Stage, name: str) -> list[ConsumerHeartbeatReceived]:
    """The heartbeats that the client sent."""
    return [
        what
        for _at_ms, who, what in stage.world.transcript
        if who == name and isinstance(what, ConsumerHeartbeatReceived)
    ]


def test_a_partition_moves_after_it_is_given_up() -> None:
    """The partition is revoked, acknowledged, and then taken by the other client."""
    stage = Stage()
    first = stage.native("n1", callback_ms=800)
    stage.wait()
    second = stage.native("n2")
    stage.wait()
    assert len(first.claims) == len(second.claims) == 2
    stated = [beat.owned for beat in heartbeats(stage, "n1") if beat.owned is not None]
    assert [len(owned) for owned in stated] == [0, 4, 2]


def test_only_heartbeats_after_a_lost_answer_are_full() -> None:
    """Other heartbeats omit unchanged fields."""
    stage = Stage()
    client = stage.native("n1")
    stage.wait()
    assert not heartbeats(stage, "n1")[-1].is_full
    client.lose_connection()
    stage.wait()
    assert sum(beat.is_full for beat in heartbeats(stage, "n1")) <= 3


def test_a_fenced_member_rejoins_under_its_id() -> None:
    """The client first gives up all partitions as lost."""
    stage = Stage()
    client = stage.native("n1")
    stage.wait()
    client.freeze()
    stage.wait(10_000)
    client.thaw()
    stage.wait()
    assert client.is_settled
    assert client.member_id == "n1"
    assert [beat.member_epoch for beat in heartbeats(stage, "n1")].count(0) == 2


def test_a_closing_static_member_keeps_its_place() -> None:
    """The client leaves with -2, and the next process takes over."""
    stage = Stage()
    client = stage.native("n1", instance_id="i1")
    stage.wait()
    client.close()
    stage.wait(1_000)
    group = stage.driver.engine.state.group
    assert isinstance(group, ConsumerGroup)
    assert list(group.members) == ["n1"]
    epoch = group.epoch
    heir = stage.native("n2", instance_id="i1")
    stage.wait(1_000)
    assert set(heir.claims) == stage.foo(0, 1, 2, 3)
    assert group.epoch == epoch
