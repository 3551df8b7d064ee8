"""Careless clients own only what they were granted, and come to rest."""

from dataclasses import replace

import pytest

from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    JoinGroupReceived,
    OffsetCommitReceived,
)
from gateway.simulation import careless
from gateway.simulation.careless import CarelessClassic, CarelessNative
from gateway.simulation.native_client import NativeClient
from tests.support.simulation import Stage


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


def test_a_client_may_disown_what_it_then_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full heartbeat falls between the assignment and its reconciliation. The next answer shows
    that the group did not believe it, or has granted the partitions again."""
    stage = Stage()
    monkeypatch.setattr(CarelessNative, "_late_ms", lambda _self: 1_000)
    client = stage.misbehaving(CarelessNative, "n1")
    while not client.heard:
        stage.wait(10)
    client._must_state_all = True
    client.beat()
    NativeClient.reconcile(client)
    assert [claim.is_disowned for claim in client.claims.values()] == [True] * 4
    stage.wait(500)
    assert [claim.is_disowned for claim in client.claims.values()] == [False] * 4


def test_requests_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats and commits."""
    monkeypatch.setattr(careless, "REPEAT_RATE", 1.0)
    stage = Stage()
    stage.misbehaving(CarelessNative, "n1")
    stage.wait()
    for kind in (ConsumerHeartbeatReceived, OffsetCommitReceived):
        sent = [what for _, who, what in stage.world.transcript if who == "n1"]
        first, again = [each for each in sent if isinstance(each, kind)][:2]
        assert replace(first, token=again.token) == again


def test_a_process_returns_with_the_member_id_of_a_dead_one() -> None:
    """It gets that member's place, before its session has ended."""
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
