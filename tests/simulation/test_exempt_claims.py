"""Claims that the ownership checks ignore."""

from collections.abc import Iterable, Set
from dataclasses import replace
from typing import Any

import pytest

from coordinator.engine import Step
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.interface.events import ConsumerHeartbeatReceived
from coordinator.interface.records import MemberMetadata, RemovalCause
from coordinator.interface.topics import Partition
from gateway.hosting.inputs import Damage
from kafka_codecs.consumer_protocol import Subscription, encode_subscription
from tests.simulation.exempt_claims import ExemptClaims
from tests.simulation.misbehaviour import HoardingClassic, LyingClassic
from tests.simulation.native_client import NativeClient
from tests.simulation.state_log import Batch
from tests.support.given_requests import CLASSIC_JOIN, NATIVE_BEAT
from tests.support.simulation import Stage

COOPERATIVE: dict[str, Any] = {"protocols": ("cooperative-sticky",), "is_cooperative": True}


def an_owner() -> tuple[Stage, ExemptClaims, NativeClient]:
    """A client that owns all partitions."""
    stage = Stage()
    client = stage.native("n1")
    stage.wait()
    return stage, stage.exempt_claims, client


def an_owner_robbed_by_a_liar() -> tuple[Stage, Set[Partition]]:
    """A stage, and the partitions that a client still owns, although its leader has given them to
    a static liar."""
    stage = Stage()
    owner = stage.classic("c1", callback_ms=5_000, **COOPERATIVE)
    stage.wait(3_000)
    liar = stage.misbehaving(LyingClassic, "c2", instance_id="i1", **COOPERATIVE)
    while not liar.claims:
        stage.wait(10)
    disputed = owner.claims.keys() & liar.claims.keys()
    assert disputed
    return stage, disputed


def voided(exempt_claims: ExemptClaims, client: NativeClient) -> int:
    """The number of the client's void claims."""
    return sum(exempt_claims.is_void(client, *owned) for owned in client.claims.items())


def heartbeat(epoch: int) -> ConsumerHeartbeatReceived:
    """A heartbeat that states no partitions."""
    return replace(NATIVE_BEAT, member_epoch=epoch, owned=frozenset())


def test_a_removed_member_has_stale_claims() -> None:
    """They stay stale until the group grants a partition again."""
    stage, exempt_claims, client = an_owner()
    gone = MemberMetadata(member_id="n1", value=None, cause=RemovalCause.SESSION_EXPIRED)
    stage.world.now_ms += 1
    exempt_claims.after_step(Step(records=(gone,)), stage.driver.engine.state.group)
    assert all(map(exempt_claims.is_stale, client.claims.values()))
    claim = next(iter(client.claims.values()))
    later = replace(claim, granted_ms=stage.world.now_ms + 1)
    assert not exempt_claims.is_stale(later)


def test_a_restart_backs_no_claim_that_the_stored_generation_reassigned() -> None:
    """A frozen static member remains in the group, while generations without it reassign its
    partitions. The log shows that even after a restart (seed 7000154)."""
    stage = Stage()
    frozen = stage.classic("c1", instance_id="i1", session_timeout_ms=60_000)
    stage.wait()
    frozen.freeze()
    heir = stage.classic("c2")
    stage.wait(12_000)
    assert heir.claims.keys() & frozen.claims.keys()
    stage.driver.crash(10)
    stage.wait(100)
    assert stage.driver.is_up
    assert all(map(stage.exempt_claims.is_stale, frozen.claims.values()))


def test_offsets_of_partitions_that_a_generation_took_from_an_absent_member_are_ignored() -> None:
    """A cooperative static member that rejoins in time still commits for them, now with the
    current generation, until it has revoked them (seed 92799)."""
    stage = Stage()
    how: dict[str, Any] = {"session_timeout_ms": 60_000, "callback_ms": 2_000, **COOPERATIVE}
    static = stage.classic("c1", instance_id="i1", **how)
    stage.wait()
    static.freeze()
    heir = stage.classic("c2", **COOPERATIVE)
    while not heir.claims:
        stage.wait(1_000)
    disputed = heir.claims.keys() & static.claims.keys()
    assert disputed
    static.rejoin()
    static.thaw()
    stage.wait(2_000)
    assert stage.exempt_claims.partitions >= disputed


def test_a_liar_voids_claims_even_after_its_client_died() -> None:
    """The classic leader has believed its list of owned partitions. The honest owner is still
    revoking one of them when the group converts (seed 93000403)."""
    stage = Stage()
    owner = stage.classic("c1")
    liar = stage.misbehaving(HoardingClassic, "c2")
    stage.wait()
    disputed, claim = next(iter(liar.claims.items()))
    liar.die("the faults stopped")
    stage.clients.remove(liar)
    owner.claims[disputed] = replace(claim, member_id=owner.member_id)
    stage.native("n1")
    stage.wait(500)
    group = stage.driver.engine.state.group
    assert isinstance(group, ConsumerGroup)
    assert group.holders[disputed] == liar.member_id
    assert disputed in stage.exempt_claims.partitions


def test_the_heir_of_a_liar_voids_claims_to_what_the_liar_got() -> None:
    """The leader gives the owner's partitions to the liar, whose generation is the newest. The
    owner is still revoking them when a classic client takes over the instance id (seed 369)."""
    stage, disputed = an_owner_robbed_by_a_liar()
    heir = stage.classic("c3", instance_id="i1", **COOPERATIVE)
    stage.wait(1_000)
    assert heir.claims.keys() >= disputed
    assert stage.exempt_claims.partitions == disputed


def test_the_native_heir_of_a_liar_voids_claims_too() -> None:
    """Its heartbeat converts the group and replaces the liar in the same step."""
    stage, disputed = an_owner_robbed_by_a_liar()
    heir = stage.native("n1", instance_id="i1")
    stage.wait(1_000)
    group = stage.driver.engine.state.group
    assert isinstance(group, ConsumerGroup)
    assert group.instances["i1"] == heir.member_id
    assert stage.exempt_claims.partitions == disputed


def test_a_conversion_that_takes_effect_with_a_load_voids_claims_too() -> None:
    """The log has the conversion, but its write was in doubt, so the group was read again
    (seed 5884)."""
    stage, disputed = an_owner_robbed_by_a_liar()
    append = stage.driver.log.append

    def in_doubt(writer: int, batches: Iterable[Batch]) -> Damage:
        assert append(writer, batches) is None
        return Damage.UNSURE

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stage.driver.log, "append", in_doubt)
        stage.native("n1")
        while not isinstance(stage.driver.engine.state.group, ConsumerGroup):
            stage.wait(10)
    assert stage.exempt_claims.partitions == disputed


@pytest.mark.parametrize("epoch", [0, 3])
def test_a_late_heartbeat_voids_no_claim(epoch: int) -> None:
    """Whatever it states (DEV D90)."""
    _stage, exempt_claims, client = an_owner()
    exempt_claims.overtaken(client, heartbeat(epoch))
    assert voided(exempt_claims, client) == len(exempt_claims.partitions) == 0


@pytest.mark.parametrize(
    ("version", "generation", "expected"), [(2, 1, 0), (2, 2, 4), (2, -1, 4), (1, 1, 4)]
)
def test_a_late_join_voids_claims_up_to_its_generation(
    version: int, generation: int, expected: int
) -> None:
    """Without a generation it voids all claims (deviation D5). The partitions were granted at epoch
    2."""
    _stage, exempt_claims, client = an_owner()
    metadata = encode_subscription(Subscription(topics=("foo",), generation_id=generation), version)
    join = replace(CLASSIC_JOIN, member_id="n1", protocols=(("range", metadata),))
    exempt_claims.overtaken(client, join)
    assert voided(exempt_claims, client) == expected
