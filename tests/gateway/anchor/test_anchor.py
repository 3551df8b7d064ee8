"""One anchor takes, keeps, loses and leaves its group. test_promises_with_kafka.py uses real
brokers."""

from itertools import pairwise

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.anchor.anchor import (
    ANXIOUS_INTERVAL_S,
    HEARTBEAT_INTERVAL_S,
    LAST_BACKOFF_S,
    SPREAD,
    GroupHolder,
)
from gateway.anchor.errors import AnchorDisplaced, NotAnchored
from gateway.anchor.identity import AnchorIds
from gateway.anchor.membership import SOMEBODY_ELSE
from gateway.cluster.errors import UpstreamError
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.join_group import JoinGroupRequest
from kafka_codecs.leave_group import LeaveGroupRequest
from kafka_codecs.sync_group import SyncGroupRequest
from tests.support.anchors import GROUP, AnchorScene, anchor_scene
from tests.support.fake_coordinator import FakeGroup

SESSION_S = 60


async def test_the_anchor_is_held_once_joined_and_synced(autojump_clock: MockClock) -> None:
    """A new group needs one JoinGroup, after which the ids exist."""
    async with anchor_scene() as scene:
        assert not await scene.is_held()
        ids = await scene.anchors.hold(GROUP)
        assert ids is not None
        assert (ids.member_id, ids.generation) == (scene.group.member_id, 1)
        assert [type(message) for _, message in scene.connections.asked] == [
            JoinGroupRequest,
            SyncGroupRequest,
        ]
        assert (scene.group.protocol_type, scene.group.protocol) == ("groupferry", "log-1")


async def test_heartbeats_are_spread(autojump_clock: MockClock) -> None:
    """Their intervals are a few seconds, and vary."""
    async with anchor_scene() as scene:
        scene.groups.live.add(GROUP)
        beaten_s: list[float] = []

        async def note(message: Struct) -> None:
            if isinstance(message, HeartbeatRequest):
                beaten_s.append(trio.current_time())

        scene.connections.before = note
        await scene.anchors.hold(GROUP)
        await trio.sleep(100)
        gaps = [later - sooner for sooner, later in pairwise(beaten_s)]
        assert len(gaps) > 10
        assert min(gaps) >= HEARTBEAT_INTERVAL_S * (1 - SPREAD)
        assert max(gaps) <= HEARTBEAT_INTERVAL_S * (1 + SPREAD)
        assert len(set(gaps)) > 5


# -- losing the group ------------------------------------------------------------------------------


async def test_a_removed_anchor_rejoins_at_once(autojump_clock: MockClock) -> None:
    """The next heartbeat reveals the removal."""
    async with anchor_scene() as scene:
        before = await scene.anchors.hold(GROUP)
        scene.groups.live.add(GROUP)
        scene.group.remove_member()
        with capture_logs() as lines:
            await trio.sleep(2 * HEARTBEAT_INTERVAL_S)
        assert [line["event"] for line in lines] == ["anchor_lost", "anchor_taken"]
        assert "UNKNOWN_MEMBER_ID" in lines[0]["reason"]
        assert await scene.anchors.hold(GROUP) != before
        assert scene.groups.looks == [], "the join would have revealed other members"


async def test_a_commit_reveals_the_removal_sooner(autojump_clock: MockClock) -> None:
    """The report counts once. A later report about the old ids does not doubt the repaired
    anchor."""
    async with anchor_scene() as scene:
        ids = await scene.anchors.hold(GROUP)
        assert ids is not None
        scene.group.remove_member()
        refused = AnchorDisplaced("a commit", ErrorCode.UNKNOWN_MEMBER_ID)
        scene.anchors.doubt(GROUP, ids, refused)
        assert not await scene.is_held()
        again = await scene.anchors.hold(GROUP)
        scene.anchors.doubt(GROUP, ids, refused)
        assert await scene.is_held()
        assert await scene.anchors.hold(GROUP) == again


async def test_the_anchor_is_checked_before_partitions_are_granted(
    autojump_clock: MockClock,
) -> None:
    """One heartbeat to the cluster serves all grants that wait."""
    async with anchor_scene() as scene:
        before = await scene.anchors.hold(GROUP)
        scene.groups.live.add(GROUP)
        await trio.sleep(0.1)
        assert await scene.anchors.hold(GROUP, since_s=trio.current_time()) == before
        assert scene.group.beats == 1
        await trio.sleep(0.1)
        scene.group.remove_member()
        renewed: list[AnchorIds | None] = []

        async def give() -> None:
            renewed.append(await scene.anchors.hold(GROUP, since_s=trio.current_time()))

        async with trio.open_nursery() as nursery:
            for _ in range(9):
                nursery.start_soon(give)
        assert set(renewed) == {await scene.anchors.hold(GROUP)}
        assert before not in renewed
        assert scene.group.beats == 2


async def test_a_replaced_anchor_looks_before_it_rejoins(autojump_clock: MockClock) -> None:
    """A newer gateway with the same log holds the group and keeps it. If two gateways took it in
    turn, both would grant partitions. The exception is a late join of the gateway's own."""
    async with anchor_scene() as scene:
        await scene.anchors.hold(GROUP)
        scene.groups.live.add(GROUP)
        scene.group.member_id = "groupferry-newer"
        scene.groups.verdict = GroupHolder.THEIRS
        await trio.sleep(2 * HEARTBEAT_INTERVAL_S)
        assert scene.groups.looks[0] is True
        assert scene.group.member_id == "groupferry-newer"
        with pytest.raises(NotAnchored):
            await scene.anchors.hold(GROUP)
        scene.groups.verdict = GroupHolder.OURS
        await scene.until_held()
        assert scene.group.member_id != "groupferry-newer"


@pytest.mark.parametrize("code", sorted(SOMEBODY_ELSE))
async def test_signs_of_other_members_cause_a_look_up(
    code: ErrorCode, autojump_clock: MockClock
) -> None:
    """The signs are consumers of either protocol, a group of another kind, and a full group."""
    async with anchor_scene() as scene:
        scene.coordinator.refuses_joins_with = code
        scene.groups.verdict = GroupHolder.THEIRS
        with pytest.raises(NotAnchored, match="another member"):
            await scene.anchors.hold(GROUP)
        assert scene.groups.looks == [False]


@pytest.mark.parametrize("protocol", [("consumer", "range"), ("groupferry", "log-2")])
async def test_direct_members_are_not_displaced(
    protocol: tuple[str, str], autojump_clock: MockClock
) -> None:
    """The cluster refuses the anchor. Requests to the group find out who holds it, and give way."""
    async with anchor_scene() as scene:
        scene.coordinator.groups[GROUP] = FakeGroup(
            protocol_type=protocol[0], protocol=protocol[1], member_id="theirs", is_synced=True
        )
        scene.groups.verdict = GroupHolder.THEIRS
        with pytest.raises(NotAnchored, match="another member is in the group"):
            await scene.anchors.hold(GROUP)
        assert scene.groups.looks == [False]
        assert not scene.anchors.is_here(GROUP)


async def test_a_group_with_members_but_no_anchor_is_looked_up_first(
    autojump_clock: MockClock,
) -> None:
    """Another gateway may have taken it a moment ago, and the join would take it back."""
    async with anchor_scene() as scene:
        scene.groups.live.add(GROUP)
        scene.groups.verdict = GroupHolder.THEIRS
        with pytest.raises(NotAnchored):
            await scene.anchors.hold(GROUP)
        assert scene.connections.asked == []


async def test_a_group_is_not_taken_while_its_holder_is_unknown(
    autojump_clock: MockClock,
) -> None:
    """Once the holder is known, it is."""
    async with anchor_scene() as scene:
        scene.groups.live.add(GROUP)
        await scene.anchors.hold(GROUP)
        scene.group.member_id = "groupferry-newer"
        scene.groups.verdict = GroupHolder.UNKNOWN
        await trio.sleep(100)
        assert scene.group.member_id == "groupferry-newer"
        assert len(scene.groups.looks) < 100 / LAST_BACKOFF_S + 10
        scene.groups.verdict = GroupHolder.OURS
        await scene.until_held()


async def test_a_silent_coordinator_keeps_the_anchor_for_a_session(
    autojump_clock: MockClock,
) -> None:
    """The session counts from the last answered heartbeat. After it the anchor does not count as a
    member, and rejoins as soon as the coordinator answers."""
    async with anchor_scene() as scene:
        scene.groups.live.add(GROUP)
        before = await scene.anchors.hold(GROUP)
        heard_s = trio.current_time()

        async def fail(message: Struct) -> None:
            raise UpstreamError("nobody answers")

        scene.connections.before = fail
        await trio.sleep_until(heard_s + SESSION_S - 1)
        assert await scene.is_held()
        await trio.sleep(2)
        assert not await scene.is_held()
        await trio.sleep(600)
        tries = scene.asked(JoinGroupRequest)
        assert tries < 600 / LAST_BACKOFF_S + 10, (
            "it is asked again and again, but not without a pause"
        )
        scene.connections.before = None
        await scene.until_held(10)
        assert await scene.anchors.hold(GROUP) != before


async def test_a_failed_heartbeat_is_soon_repeated(autojump_clock: MockClock) -> None:
    """The session timeout continues meanwhile."""
    async with anchor_scene() as scene:
        scene.groups.live.add(GROUP)
        await scene.anchors.hold(GROUP)
        beaten_s: list[float] = []

        async def fail_twice(message: Struct) -> None:
            if isinstance(message, HeartbeatRequest):
                beaten_s.append(trio.current_time())
                if len(beaten_s) < 3:
                    raise UpstreamError("nobody answers")

        scene.connections.before = fail_twice
        await trio.sleep(5 * HEARTBEAT_INTERVAL_S)
        first, second, third, *_ = (b - a for a, b in pairwise(beaten_s))
        assert max(first, second) <= ANXIOUS_INTERVAL_S * (1 + SPREAD)
        assert third >= HEARTBEAT_INTERVAL_S * (1 - SPREAD)


async def test_the_anchor_follows_its_coordinator(autojump_clock: MockClock) -> None:
    """It keeps its ids, because the group is stored."""
    async with anchor_scene() as scene:
        scene.groups.live.add(GROUP)
        before = await scene.anchors.hold(GROUP)
        scene.node_id = 2

        async def only_at_2(message: Struct) -> None:
            if scene.connections.asked[-1][0] != 2:
                raise UpstreamError("Heartbeat of the anchor was answered with error 16")

        scene.connections.before = only_at_2
        scene.anchors.look_around(GROUP)
        await trio.sleep(1)
        assert scene.connections.asked[-1][0] == 2
        assert await scene.anchors.hold(GROUP) == before
        assert scene.asked(JoinGroupRequest) == 1


# -- commits whose answer was lost -----------------------------------------------------------------


async def held_commit(scene: AnchorScene) -> None:
    """The answer to commit 5 is lost."""
    ids = await scene.anchors.hold(GROUP)
    scene.anchors.commit_lost(GROUP, ids, 5)


def ends(scene: AnchorScene) -> list[tuple[int, bool]]:
    """The group's events about commits."""
    return [(event.commit, event.answer_lost) for event in scene.groups.ended]


async def test_a_lost_commit_ends_when_the_anchor_is_replaced(
    autojump_clock: MockClock,
) -> None:
    """The new anchor must be Stable, because a coordinator that fails over earlier would restore
    the old one."""
    async with anchor_scene() as scene:
        await held_commit(scene)
        assert ends(scene) == [(5, True)]
        gate = trio.Event()
        before = scene.group.member_id

        async def wait_at_sync(message: Struct) -> None:
            if isinstance(message, SyncGroupRequest):
                await gate.wait()

        scene.connections.before = wait_at_sync
        await wait_all_tasks_blocked()
        assert scene.group.member_id != before
        assert ends(scene) == [(5, True)]
        gate.set()
        await scene.until_held()
        assert ends(scene) == [(5, True), (5, False)]


async def test_a_commit_lost_under_an_earlier_member_id_ends_at_once(
    autojump_clock: MockClock,
) -> None:
    """Its client noticed late, and the replacement has already happened."""
    async with anchor_scene() as scene:
        ids = await scene.anchors.hold(GROUP)
        scene.group.remove_member()
        assert ids is not None
        scene.anchors.doubt(GROUP, ids, AnchorDisplaced("a commit", ErrorCode.UNKNOWN_MEMBER_ID))
        await scene.until_held()
        joins = scene.asked(JoinGroupRequest)
        scene.anchors.commit_lost(GROUP, ids, 5)
        assert ends(scene) == [(5, True), (5, False)]
        await trio.sleep(1)
        assert scene.asked(JoinGroupRequest) == joins


async def test_a_lost_commit_without_a_member_ends_when_the_group_is_held(
    autojump_clock: MockClock,
) -> None:
    """A consumer that uses assign() died during its commit to a group without an anchor. Once the
    anchor has joined, the cluster refuses the commit. Without an anchor nothing would reveal its
    end."""
    async with anchor_scene(linger_s=1) as scene:
        scene.anchors.commit_lost(GROUP, None, 5)
        assert ends(scene) == [(5, True)]
        await scene.until_held()
        assert ends(scene) == [(5, True), (5, False)]
        await trio.sleep(10)
        assert not scene.anchors.is_here(GROUP)


async def test_a_lost_commit_keeps_the_anchor_in_the_group(autojump_clock: MockClock) -> None:
    """The group is empty, and the coordinator is down for long."""
    async with anchor_scene(linger_s=1) as scene:
        ids = await scene.anchors.hold(GROUP)

        async def fail(message: Struct) -> None:
            raise UpstreamError("nobody answers")

        scene.connections.before = fail
        scene.anchors.commit_lost(GROUP, ids, 5)
        await trio.sleep(300)
        assert ends(scene) == [(5, True)]
        scene.connections.before = None
        await trio.sleep(10)
        assert ends(scene) == [(5, True), (5, False)]


# -- leaving ---------------------------------------------------------------------------------------


async def test_the_anchor_lingers_after_the_last_member(autojump_clock: MockClock) -> None:
    """A restarting consumer still finds it. It leaves in the end."""
    async with anchor_scene(linger_s=60) as scene:
        scene.groups.live.add(GROUP)
        await scene.anchors.hold(GROUP)
        await trio.sleep(600)
        assert scene.anchors.is_here(GROUP)
        scene.groups.live.clear()
        await trio.sleep(50)
        assert scene.asked(LeaveGroupRequest) == 0
        await trio.sleep(20)
        assert scene.asked(LeaveGroupRequest) == 1
        assert scene.group.member_id == ""
        assert not scene.anchors.is_here(GROUP)


async def test_a_dropped_anchor_leaves_at_once(autojump_clock: MockClock) -> None:
    """An admin deletes the group, so the cluster must see it empty."""
    async with anchor_scene() as scene:
        await scene.anchors.hold(GROUP)
        began_s = trio.current_time()
        await scene.anchors.drop(GROUP)
        assert trio.current_time() - began_s < 0.1
        assert scene.group.member_id == ""
        await scene.anchors.drop(GROUP)  # there is nothing to leave


async def test_a_leaving_anchor_returns_for_a_new_member(autojump_clock: MockClock) -> None:
    """A member joined at the last moment. It gets partitions only after the group is held again."""
    async with anchor_scene(linger_s=1) as scene:
        await scene.anchors.hold(GROUP)
        gate = trio.Event()

        async def wait_at_leave(message: Struct) -> None:
            if isinstance(message, LeaveGroupRequest):
                scene.groups.live.add(GROUP)
                await gate.wait()

        scene.connections.before = wait_at_leave
        await trio.sleep(3)
        assert not await scene.is_held()
        gate.set()
        await scene.until_held(1)
