"""The coordinator of a group that is being adopted, and how brokers differ."""

from dataclasses import replace
from uuid import UUID

import pytest

from coordinator.interface.events import JoinGroupReceived
from coordinator.interface.replies import ConsumerHeartbeatReply, JoinGroupReply
from gateway.hosting.adoptable import snapshot
from gateway.hosting.adoption_requests import Adoptees
from gateway.hosting.forwarded import WatchedGroup
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.explorer.beginning import begin_moving
from tests.simulation.explorer.moving_world import MovingWorld
from tests.simulation.explorer.small_cluster import GROUP
from tests.simulation.explorer.small_consumers import Kind, start
from tests.simulation.explorer.upstream import Upstream, the_gateway
from tests.simulation.explorer.worlds import WORLDS


def watched(world: MovingWorld) -> WatchedGroup:
    """What the gateway knows from the requests that it has relayed."""
    known = world.port.group.rules.watched.group(GROUP)
    assert known is not None
    return known


def with_parked_leader(*, natives_disturb: bool) -> tuple[Upstream, int]:
    """Two consumers; the leader's member has rejoined with unreadable bytes."""
    world = begin_moving(replace(WORLDS["adopt"], natives_disturb=natives_disturb))
    upstream = world.upstream
    described = upstream.describe()
    adoptees = Adoptees(GROUP, snapshot(described, watched(world)), the_gateway().guise)
    rejoin = adoptees.leaders_member().join(
        world.now_ms, member_id=adoptees.leader.member_id, names=adoptees.names
    )
    upstream.tell(upstream.read(99, rejoin), world.now_ms)
    assert not upstream.replies
    return upstream, world.now_ms


def knock(upstream: Upstream, now_ms: int) -> None:
    """A native consumer joins."""
    native = start("n", Kind.NATIVE, upstream.topics, now_ms)
    _api, event = native.ask(100, UUID(int=100), now_ms)
    upstream.tell(event, now_ms)


@pytest.mark.parametrize("natives_disturb", [False, True])
def test_unreadable_bytes_keep_native_consumers_from_converting_the_group(
    natives_disturb: bool,
) -> None:
    upstream, now_ms = with_parked_leader(natives_disturb=natives_disturb)
    knock(upstream, now_ms)
    answers = dict(upstream.replies)
    refusal = answers.pop(100)
    assert isinstance(refusal, ConsumerHeartbeatReply)
    assert upstream.describe().group_state == "PreparingRebalance"
    if natives_disturb:
        assert refusal.error == ErrorCode.UNKNOWN_SERVER_ERROR
        disturbed = answers.pop(99)
        assert isinstance(disturbed, JoinGroupReply)
        assert disturbed.error == ErrorCode.REBALANCE_IN_PROGRESS
    else:
        assert refusal.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert not answers


def test_only_a_stable_group_shows_what_its_members_have() -> None:
    upstream, _now_ms = with_parked_leader(natives_disturb=False)
    described = upstream.describe()
    assert len(described.members) == 2
    assert not any(member.member_assignment for member in described.members)
    assert described.protocol_data == ""


def test_the_newest_joiner_is_elected_if_the_world_says_so() -> None:
    world = begin_moving(WORLDS["adopt-outsider"])
    upstream = world.upstream
    for number, name in enumerate(("x", "y")):
        joiner = start(name, Kind.EAGER, upstream.topics, world.now_ms)
        _api, event = joiner.ask(200 + number, UUID(int=200 + number), world.now_ms)
        assert isinstance(event, JoinGroupReceived)
        upstream.tell(event, world.now_ms)
        _token, handed_out = upstream.replies.pop()
        joiner.hear(handed_out, world.now_ms)
        _api, event = joiner.ask(300 + number, UUID(int=300 + number), world.now_ms)
        upstream.tell(event, world.now_ms)
    adoptees = Adoptees(
        GROUP,
        snapshot(upstream.describe(), watched(world)),
        the_gateway().guise,
    )
    present = {world.consumers[name].member_id for name in "ab"}  # type: ignore[union-attr]
    leavers = [member for member in adoptees.group.members if member.member_id in present]
    upstream.tell(upstream.read(400, adoptees.leave(leavers)), world.now_ms)
    joined = {token: reply for token, reply in upstream.replies if token in (300, 301)}
    assert joined[301].leader == joined[301].member_id  # type: ignore[union-attr]
    assert joined[300].leader == joined[301].leader  # type: ignore[union-attr]


def test_a_cluster_without_the_new_protocol_refuses_native_consumers() -> None:
    world = begin_moving(replace(WORLDS["adopt"], takes_natives=False))
    knock(world.upstream, world.now_ms)
    ((_token, refusal),) = world.upstream.replies
    assert refusal.error == ErrorCode.UNSUPPORTED_VERSION
