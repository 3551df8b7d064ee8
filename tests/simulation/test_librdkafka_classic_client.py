"""A classic client of librdkafka's repeats its claims, and joins twice without an id."""

from coordinator.interface.events import JoinGroupReceived
from tests.simulation.leader import STICKY
from tests.simulation.librdkafka_classic_client import LibrdkafkaClassicClient
from tests.simulation.stage import Stage


def test_it_joins_twice_and_claims_what_it_had() -> None:
    """A release takes its id away."""
    stage = Stage()
    client = stage.misbehaving(
        LibrdkafkaClassicClient, "k1", protocols=(STICKY,), is_cooperative=True
    )
    stage.wait()
    before = client.member_id
    stage.driver.process.release()
    stage.wait(20_000)
    joins = [
        what
        for _at, who, what in stage.world.transcript
        if who == "k1" and isinstance(what, JoinGroupReceived) and not what.member_id
    ]
    assert len(joins) > 2
    assert client.member_id != before
    assert len(client.claims) == 4
    assert {claim.member_id for claim in client.claims.values()} == {client.member_id}
