"""The cost of a step follows what it changes, not the number of members.

A request of one member of a group at rest takes as much work in a large group as in a small one:
deciding, events, observers, journal, records and replies. Work is counted, not timed.
"""

from collections.abc import Callable
from functools import cache

import pytest

from coordinator.interface.config import GroupConfig
from coordinator.interface.replies import ConsumerHeartbeatReply, JoinGroupReply
from gateway.hosting.answers import RefusalReason
from gateway.hosting.effects import Ask, AskCoordinator, Describe
from gateway.hosting.inputs import MoveRequested
from gateway.hosting.move_requests import ReleaseRequest
from gateway.hosting.states import ReleaseStage, Stage
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_values import make_topics
from tests.support.hosted_scene import HostedScene, cause_of, error_of
from tests.support.operations import Cost, cost_of

SMALL, LARGE = 10, 400
MEMBERS_ASKED = 20
"""A step that is long only now and then, such as one that merges layers, is among these."""
STEPS_GROWTH_MAX = 1.1
"""Heaps and trees may be a little deeper."""
STEPS_PER_WAITING_MAX = 80
"""To skip a call that waits for the anchor. Another attempt to admit it takes over 300 more."""
BYTES_GROWTH_MAX = 2.0
"""Integers beyond the first few hundred take memory of their own."""
SESSION_MS = 300_000

Member = tuple[str, int]
"""A member's id, and its epoch or generation."""


@cache
def classic_group(size: int) -> tuple[HostedScene, list[Member]]:
    """A Stable classic group."""
    scene = _scene(size)
    firsts = [scene.join(session_timeout_ms=SESSION_MS) for _ in range(size)]
    ids = [_join_reply(call.answer).member_id for call in firsts]
    calls = [scene.join(id_, session_timeout_ms=SESSION_MS) for id_ in ids]
    scene.wait_until(lambda: all(call.answer for call in calls))
    replies = [_join_reply(call.answer) for call in calls]
    (generation,) = {reply.generation for reply in replies}
    shares = {id_: {"foo": [number]} for number, id_ in enumerate(ids)}
    leader = replies[0].leader
    for id_ in sorted(ids, key=lambda member_id: member_id != leader):
        scene.sync(id_, generation, shares if id_ == leader else None)
    return scene, [(id_, generation) for id_ in ids]


@cache
def native_group(size: int) -> tuple[HostedScene, list[Member]]:
    """A Stable consumer group of native members."""
    scene = _scene(size)
    epochs = {f"member-{number}": 0 for number in range(size)}
    owned: dict[str, list[int]] = {id_: [] for id_ in epochs}
    before: dict[str, int] = {}
    while epochs != before or sum(map(len, owned.values())) < size:
        before = dict(epochs)
        for id_, epoch in before.items():
            reply = scene.native(id_, epoch, owned={"foo": owned[id_]}).answer
            assert isinstance(reply, ConsumerHeartbeatReply), reply
            assert not reply.error, reply
            epochs[id_] = reply.member_epoch
            if reply.assignment is not None:
                owned[id_] = [partition.number for partition in reply.assignment]
        scene.wait(1_000)
    assert len(set(epochs.values())) == 1
    assert all(len(partitions) == 1 for partitions in owned.values())
    return scene, [*epochs.items()]


def _scene(size: int) -> HostedScene:
    scene = HostedScene(config=GroupConfig(lost_commit_hold_ms=None))
    scene.topics = make_topics(foo=size)
    return scene


def _join_reply(answer: object) -> JoinGroupReply:
    assert isinstance(answer, JoinGroupReply), answer
    return answer


def heartbeat(scene: HostedScene, member: Member) -> None:
    """A Heartbeat."""
    assert error_of(scene.beat(*member)) is ErrorCode.NONE


def native_heartbeat(scene: HostedScene, member: Member) -> None:
    """A ConsumerGroupHeartbeat in which nothing has changed."""
    assert error_of(scene.native(*member)) is ErrorCode.NONE


def commit(scene: HostedScene, member: Member) -> None:
    """A commit of one partition, until the cluster has stored it."""
    sent = len(scene.sent)
    scene.commit(*member, {"foo": [0]})
    assert len(scene.sent) == sent + 1


def sync(scene: HostedScene, member: Member) -> None:
    """A SyncGroup that repeats one whose answer was lost."""
    assert error_of(scene.sync(*member)) is ErrorCode.NONE


def fetch(scene: HostedScene, _member: Member) -> None:
    """An OffsetFetch."""
    assert error_of(scene.fetch({"foo": [0]})) is ErrorCode.NONE


def join(scene: HostedScene, _member: Member) -> None:
    """Both JoinGroups of a new member, while the group rebalances."""
    first = _join_reply(scene.join(session_timeout_ms=SESSION_MS).answer)
    second = scene.join(first.member_id, session_timeout_ms=SESSION_MS)
    assert second.stage is Stage.DECIDING


def cost_in(group: tuple[HostedScene, list[Member]], work: Callable[..., None]) -> Cost:
    """What requests of the same number of members cost."""
    scene, members = group
    asked = [members[number % len(members)] for number in range(MEMBERS_ASKED)]

    def all_of_them() -> None:
        for member in asked:
            work(scene, member)

    all_of_them()
    return cost_of(all_of_them)


@pytest.mark.parametrize(
    ("group_of", "work"),
    [
        (classic_group, heartbeat),
        (classic_group, sync),
        (classic_group, commit),
        (classic_group, fetch),
        (native_group, native_heartbeat),
        (native_group, commit),
        (native_group, fetch),
        (classic_group, join),  # the last, because the group is not at rest afterwards
    ],
    ids=[
        "Heartbeat",
        "SyncGroup",
        "classic commit",
        "classic fetch",
        "ConsumerGroupHeartbeat",
        "native commit",
        "native fetch",
        "JoinGroup",
    ],
)
def test_a_step_costs_the_same_in_a_large_group(
    group_of: Callable[[int], tuple[HostedScene, list[Member]]], work: Callable[..., None]
) -> None:
    small, large = (cost_in(group_of(size), work) for size in (SMALL, LARGE))
    assert large.steps <= STEPS_GROWTH_MAX * small.steps
    assert large.peak_bytes <= BYTES_GROWTH_MAX * small.peak_bytes


def test_a_heartbeat_costs_the_same_while_a_large_group_is_released() -> None:
    """Thousands of members are told to rejoin, one by one."""

    def cost_among(size: int) -> Cost:
        scene, members = classic_group.__wrapped__(size)
        scene.hold(Ask, Describe)
        scene.feed(MoveRequested(ReleaseRequest()))
        assert scene.group.move.stage is ReleaseStage.RECALLING
        asked = members[: SMALL // 2]

        def beat_all() -> None:
            for member in asked:
                assert cause_of(scene.beat(*member)) is RefusalReason.RECALLED

        beat_all()
        return cost_of(beat_all)

    small, large = cost_among(SMALL), cost_among(LARGE)
    assert large.steps <= STEPS_GROWTH_MAX * small.steps


def test_a_look_does_not_admit_again_who_waits_for_the_anchor() -> None:
    """The anchor's JoinGroup takes seconds, and the clients of a new group come together."""

    def cost_among(size: int) -> int:
        scene = _scene(size)
        scene.hold(AskCoordinator)
        ids = [_join_reply(scene.join(session_timeout_ms=SESSION_MS).answer) for _ in range(size)]
        calls = [scene.join(member.member_id, session_timeout_ms=SESSION_MS) for member in ids]
        assert {call.stage for call in calls} == {Stage.ADMITTING}
        return cost_of(lambda: scene.join(session_timeout_ms=SESSION_MS)).steps

    assert cost_among(300) <= cost_among(10) + 300 * STEPS_PER_WAITING_MAX
