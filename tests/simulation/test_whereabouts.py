"""Members are found wherever they are."""

from dataclasses import replace

from tests.support.simulation import PEACEFUL, Stage

FORWARDS = replace(PEACEFUL, hosts_all=False)


def test_members_are_in_the_gateway_while_it_hosts_the_group() -> None:
    stage = Stage()
    client = stage.classic("c1")
    stage.wait()
    assert stage.whereabouts.is_hosted
    assert client.member_id in stage.whereabouts.members
    assert stage.whereabouts.engine is stage.driver.engine


def test_members_are_in_the_cluster_while_the_group_is_forwarded() -> None:
    stage = Stage(plan=FORWARDS)
    client = stage.classic("c1")
    stage.wait()
    assert not stage.whereabouts.is_hosted
    assert client.member_id in stage.whereabouts.members
    assert stage.whereabouts.engine is stage.cluster.group.engine
    assert len(client.claims) == 4


def test_members_are_in_the_record_while_they_move() -> None:
    stage = Stage()
    client = stage.classic("c1", heartbeat_interval_ms=3_000)
    stage.wait()
    member_id = client.member_id
    stage.driver.process.release()
    while not stage.whereabouts.moving:
        stage.wait(1)
    assert not stage.whereabouts.is_hosted
    assert {member_id} == stage.whereabouts.moving.keys()
