"""Native clients with the behaviour of librdkafka."""

from coordinator.group.consumer_group import ConsumerGroup
from tests.simulation.client import RETRY_MS
from tests.simulation.stage import Stage
from tests.simulation.test_native_client import heartbeats


def test_heartbeats_are_full_until_the_first_assignment() -> None:
    """After that the client states its partitions once. It acknowledges no assignment that changes
    nothing."""
    stage = Stage()
    first = stage.librdkafka("l1")
    stage.wait()
    assert [beat.is_full for beat in heartbeats(stage, "l1")][:3] == [True, False, False]
    assert [beat.owned for beat in heartbeats(stage, "l1") if beat.owned] == [stage.foo(0, 1, 2, 3)]
    for name in ("l2", "l3", "l4"):
        stage.librdkafka(name)
    stage.wait()
    idle = stage.librdkafka("l5")
    stage.wait()
    assert not idle.claims
    assert all(beat.is_full for beat in heartbeats(stage, "l5"))
    assert len(first.claims) == 1


def test_the_same_heartbeat_is_repeated_while_the_coordinator_loads() -> None:
    """The heartbeat is a short one, so the group has to repeat what was withheld."""
    stage = Stage()
    first = stage.librdkafka("l1")
    stage.wait()
    stage.silence_the_coordinator()
    second = stage.librdkafka("l2", rebalance_timeout_ms=60_000)
    stage.wait(3_000)
    assert not second.claims
    assert sum(beat.is_full for beat in heartbeats(stage, "l1")) == 1
    stage.end_the_silence()
    stage.wait()
    assert len(first.claims) == len(second.claims) == 2
    assert sum(beat.is_full for beat in heartbeats(stage, "l1")) == 1


def test_a_heartbeat_is_abandoned_at_its_interval() -> None:
    """The client continues with short heartbeats, and ignores the late answer."""
    stage = Stage()
    first = stage.librdkafka("l1", heartbeat_interval_ms=200)
    stage.wait()
    before = len(heartbeats(stage, "l1"))
    stage.network.slow_rate = 1.0
    second = stage.native("n2", rebalance_timeout_ms=60_000)
    stage.wait(20_000)
    stage.network.slow_rate = 0.0
    given_up = heartbeats(stage, "l1")[before:]
    assert len(given_up) > 20_000 // (1_000 + RETRY_MS) // 2
    assert sum(beat.is_full for beat in given_up) == 0
    stage.wait(20_000)
    assert len(first.claims) == len(second.claims) == 2


def test_heartbeats_are_full_after_the_coordinator_was_lost() -> None:
    """Once."""
    stage = Stage()
    client = stage.librdkafka("l1", heartbeat_interval_ms=100)
    stage.wait()
    stage.driver.crash(500)
    stage.wait()
    assert client.is_settled
    assert sum(beat.is_full for beat in heartbeats(stage, "l1")) >= 2
    assert not heartbeats(stage, "l1")[-1].is_full


def test_an_unreceived_partition_is_released_at_once() -> None:
    """The answer that granted it was withheld, and then the topic vanished. The refusal makes the
    client state its partitions, so the group need not wait for its rebalance timeout."""
    stage = Stage()
    stage.cluster.create("bar", 1)
    first = stage.librdkafka("l1")
    stage.wait()
    second = stage.librdkafka("l2", topics=("bar", "foo"), rebalance_timeout_ms=60_000)
    while len(first.claims) == 4:
        stage.wait(1)
    stage.silence_the_coordinator()
    stage.wait(2_000)
    group = stage.driver.engine.state.group
    assert isinstance(group, ConsumerGroup)
    assert len(group.assignments["l2"].assigned) > 1
    assert len(second.claims) == 1
    stage.end_the_silence()
    stage.cluster.delete("foo")
    stage.wait(5_000)
    assert all(group.is_settled(member_id) for member_id in group.members)
