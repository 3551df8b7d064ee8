"""Careless clients own only what they were granted, and come to rest."""

from dataclasses import replace

import pytest

from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    JoinGroupReceived,
    OffsetCommitReceived,
)
from coordinator.interface.replies import ConsumerHeartbeatReply, HeartbeatReply
from coordinator.interface.topics import Topics
from kafka_codecs.error_codes import ErrorCode
from tests.simulation import careless
from tests.simulation.careless import CarelessClassic, CarelessNative
from tests.simulation.connection import Ask
from tests.simulation.driver import Answer
from tests.simulation.stage import Stage


def test_careless_clients_of_both_protocols_share_the_partitions() -> None:
    """Although they are late, repeat requests and state old epochs."""
    stage = Stage()
    first = stage.misbehaving(CarelessNative, "n1")
    stage.wait(1_000)
    second = stage.misbehaving(CarelessClassic, "c1")
    stage.wait(30_000)
    assert first.is_settled
    assert second.is_settled
    assert len(first.claims) == len(second.claims) == 2


def test_the_first_request_in_a_new_epoch_may_state_the_old_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once: then the client has noticed."""
    monkeypatch.setattr(careless, "STALE_RATE", 1.0)
    client = Stage().misbehaving(CarelessNative, "n1")
    stated = []
    for epoch in (3, 4, 4, 5):
        client.member_epoch = epoch
        stated.append(client.stated_epoch())
    assert stated == [3, 3, 4, 4]


def test_a_refused_heartbeat_of_the_generation_before_resets_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Java ignores it, too. Otherwise each generation may begin the next one (seed 1550261)."""
    monkeypatch.setattr(careless, "STALE_RATE", 1.0)
    stage = Stage()
    client = stage.misbehaving(CarelessClassic, "c1")
    stage.classic("c2")
    stage.wait(20_000)
    while client._awaits_beat:
        stage.wait(10)
    generation = client.generation
    client._last_stated = generation - 1
    client._beat()
    stage.wait(100)
    refused = HeartbeatReply(
        error=ErrorCode.ILLEGAL_GENERATION,
        reason=f"generation {generation - 1} is not the current one, {generation}",
    )
    assert refused in [what for _, who, what in stage.world.transcript if who == "c1 hears"]
    assert client.is_settled
    assert client.generation == generation


def test_a_client_that_leaves_takes_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The member has heard of an assignment, and takes its time to reconcile (seed 1560100)."""
    stage = Stage()
    monkeypatch.setattr(CarelessNative, "_late_ms", lambda _self: 1_000)
    client = stage.misbehaving(CarelessNative, "n1", instance_id="i1")
    while not client.last_assignment:
        stage.wait(10)
    stage.wait(990)
    client.take_slot("i2")
    stage.network.loss_rate = 1.0
    stage.wait(100)
    assert not client.claims


def test_requests_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats and commits."""
    monkeypatch.setattr(careless, "REPEAT_RATE", 1.0)
    stage = Stage()
    stage.misbehaving(CarelessNative, "n1")
    stage.wait()
    for kind in (ConsumerHeartbeatReceived, OffsetCommitReceived):
        sent = [what for _, who, what in stage.world.transcript if who == "n1"]
        first, again = [request for request in sent if isinstance(request, kind)][:2]
        assert replace(first, token=again.token) == again


def test_the_answer_to_the_repetition_counts_if_the_other_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What arrives on the connection, the client has heard (seed 95000025)."""
    monkeypatch.setattr(careless, "REPEAT_RATE", 1.0)
    stage = Stage()
    client = stage.misbehaving(CarelessNative, "n1")
    asks: list[Ask] = []
    monkeypatch.setattr(client._line, "send", asks.append)
    heard: list[Answer] = []
    losses: list[str] = []
    client.ask(client._heartbeat(0), heard.append, lambda: losses.append("all"))
    first, repetition = asks
    answer = Answer(reply=ConsumerHeartbeatReply(), at_ms=0, topics=Topics())
    first.lost()
    repetition.heard(answer)
    assert heard == [answer]
    assert not losses
    client.ask(client._heartbeat(0), heard.append, lambda: losses.append("all"))
    for ask in asks[2:]:
        ask.lost()
    assert heard == [answer]
    assert losses == ["all"]


def test_a_process_returns_with_the_member_id_of_a_dead_one() -> None:
    """The process gets the place of the dead one, before its session has ended."""
    stage = Stage()
    first = stage.misbehaving(CarelessNative, "n1")
    stage.wait()
    first.die("killed")
    second = CarelessNative(stage.context, "n2", first.spec)
    second.come_back_as(first)
    stage._start(second)
    stage.wait(2_000)
    group = stage.driver.engine.state.group
    assert group is not None
    assert [*group.members] == ["n1"]
    assert len(second.claims) == 4


def test_a_client_that_loses_its_member_id_asks_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The group forgets the first id in time."""
    monkeypatch.setattr(careless, "LOST_ID_RATE", 1.0)
    stage = Stage()
    client = stage.misbehaving(CarelessClassic, "c1")
    stage.wait(200)
    joins = [e for _, _, e in stage.world.transcript if isinstance(e, JoinGroupReceived)]
    assert len(joins) > 1
    monkeypatch.setattr(careless, "LOST_ID_RATE", 0.0)
    stage.wait(60_000)
    assert client.is_settled
