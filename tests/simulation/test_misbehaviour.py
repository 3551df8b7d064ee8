"""Clients that break the protocol do so, and harm no honest client."""

import pytest

from kafka_codecs.error_codes import ErrorCode
from tests.simulation.client import Client, Spec
from tests.simulation.misbehaviour import (
    DISHONEST,
    Dawdler,
    HoardingClassic,
    HoardingNative,
    LyingLeader,
    Vandal,
)
from tests.simulation.stage import Stage

SPEC = Spec(topics=("foo",), protocols=("cooperative-sticky",), is_cooperative=True)


def start(stage: Stage, kind: type[Client]) -> Client:
    """A misbehaving client starts."""
    client = kind(stage.context, "bad", SPEC)
    stage.clients.append(client)
    client.start()
    return client


@pytest.mark.parametrize("kind", DISHONEST)
def test_a_misbehaving_client_harms_no_other(kind: type[Client]) -> None:
    """Its claims and offsets are ignored. Honest clients continue, and all invariants hold."""
    stage = Stage(5)
    bad = start(stage, kind)
    good = stage.native("n1")
    stage.wait(20_000)
    assert not bad.is_honest
    assert good.is_settled or good.is_dead
    assert not [
        who for _at, who, what in stage.world.transcript if who == "bad" and what == "stores"
    ]
    bad.die("enough")
    heir = stage.native("n2")
    stage.wait(20_000)
    assert heir.is_settled
    owners = [client for client in (good, heir) if not client.is_dead]
    assert {p for client in owners for p in client.claims} == stage.foo(0, 1, 2, 3)


@pytest.mark.parametrize("kind", [HoardingNative, HoardingClassic])
def test_a_hoarder_keeps_everything_until_it_is_fenced(kind: type[Client]) -> None:
    """The revocation deadline fences it, and the other client gets its share."""
    stage = Stage()
    bad = start(stage, kind)
    stage.wait()
    assert len(bad.claims) == 4
    good = stage.native("n1")
    stage.wait(5_000)
    assert not good.claims
    stage.wait(5_000)
    assert good.claims


def test_a_dawdler_often_omits_requests() -> None:
    """The client omits SyncGroup, or the second JoinGroup."""
    syncs = joins = 0
    for seed in range(10):
        stage = Stage(seed)
        start(stage, Dawdler)
        stage.wait(10_000)
        messages = [
            type(what).__name__ for _at, who, what in stage.world.transcript if who == "bad"
        ]
        syncs += messages.count("SyncGroupReceived")
        joins += messages.count("JoinGroupReceived")
    assert 0 < syncs < joins / 2


def test_a_lying_leader_is_recorded() -> None:
    """The claims from its assignments do not count."""
    stage = Stage(3)
    start(stage, LyingLeader)
    stage.wait(1_000)
    honest = stage.classic("c1", protocols=SPEC.protocols, is_cooperative=True)
    stage.wait()
    assert stage.context.lies
    assert all(claim.is_lie for claim in honest.claims.values())


def test_a_vandal_gets_every_kind_of_refusal() -> None:
    """No misbehaviour causes an internal error."""
    codes: set[ErrorCode] = set()
    for seed in range(16):
        stage = Stage(seed)
        stage.native("n1", version=1)
        start(stage, Vandal)
        stage.wait(30_000)
        heard = [what for _at, who, what in stage.world.transcript if who == "bad hears"]
        codes |= {getattr(reply, "error", ErrorCode.NONE) for reply in heard}
    assert {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
    } <= codes
