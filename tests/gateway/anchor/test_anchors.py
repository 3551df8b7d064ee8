"""All anchors of a gateway: waiting, limits, and their end."""

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.interface.events import OffsetCommitEnded
from gateway.anchor.anchors import (
    JOIN_PATIENCE_S,
    LEAVE_TIMEOUT_S,
    MEMBER_PATIENCE_S,
    RESTART_S,
)
from gateway.anchor.errors import NotAnchored
from gateway.cluster.errors import UpstreamError
from kafka_codecs.declaration import Struct
from kafka_codecs.heartbeat import HeartbeatRequest
from kafka_codecs.join_group import JoinGroupRequest
from kafka_codecs.leave_group import LeaveGroupRequest
from tests.support.anchors import GROUP, anchor_scene, anchors_off


async def silence(message: Struct) -> None:
    """The coordinator never answers."""
    await trio.sleep_forever()


async def refuse(message: Struct) -> None:
    """The coordinator is unreachable."""
    raise UpstreamError("nobody listens")


async def test_many_requests_wait_for_one_anchor(autojump_clock: MockClock) -> None:
    """It is taken once, and all get the same ids."""
    async with anchor_scene() as scene:
        got = []

        async def hold() -> None:
            got.append(await scene.anchors.hold(GROUP))

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(hold)
        assert len(set(got)) == 1
        assert scene.asked(JoinGroupRequest) == 1


async def test_no_request_waits_long(autojump_clock: MockClock) -> None:
    """Then the client must retry, and the anchor continues to try."""
    async with anchor_scene() as scene:
        scene.connections.before = silence
        began_s = trio.current_time()
        with pytest.raises(NotAnchored):
            await scene.anchors.hold(GROUP)
        assert trio.current_time() - began_s == pytest.approx(JOIN_PATIENCE_S)
        assert scene.anchors.is_here(GROUP)


async def test_the_wait_does_not_grow_with_a_members_requests(autojump_clock: MockClock) -> None:
    """Heartbeats wait behind all of them, and a session may be as short as 6 s. A first member has
    no session yet, and a group that was held in between may be waited for again."""

    async def waits_s(requests: int) -> float:
        began_s = trio.current_time()
        for _ in range(requests):
            with pytest.raises(NotAnchored):
                await scene.anchors.hold(GROUP, patience_s=MEMBER_PATIENCE_S)
        return trio.current_time() - began_s

    async with anchor_scene() as scene:
        ids = await scene.anchors.hold(GROUP)
        scene.groups.live.add(GROUP)
        for _ in range(2):
            scene.connections.before = refuse
            scene.anchors.commit_lost(GROUP, ids, 5)
            await trio.sleep(1)
            assert await waits_s(requests=10) == pytest.approx(MEMBER_PATIENCE_S - 1)
            scene.connections.before = None
            await scene.until_held()
            ids = await scene.anchors.hold(GROUP)
        scene.groups.live.clear()
        scene.connections.before = refuse
        scene.anchors.commit_lost(GROUP, ids, 5)
        assert await waits_s(requests=2) == pytest.approx(2 * MEMBER_PATIENCE_S)


async def test_waiting_requests_get_the_reason(autojump_clock: MockClock) -> None:
    """The log has more details, once, because they may contain an address."""
    async with anchor_scene() as scene:
        scene.connections.before = refuse
        with capture_logs() as lines, pytest.raises(NotAnchored, match="no usable answer") as told:
            await scene.anchors.hold(GROUP)
        assert [(line["event"], line["reason"]) for line in lines] == [
            ("anchor_lost", "nobody listens")
        ]
        assert "nobody listens" not in str(told.value)


async def test_the_number_of_anchors_is_limited(autojump_clock: MockClock) -> None:
    """Clients may name any group."""
    async with anchor_scene(anchors_max=2) as scene:
        for group_id in ("a", "b"):
            await scene.anchors.hold(group_id)
        with pytest.raises(NotAnchored, match="the limit of 2"):
            await scene.anchors.hold("c")
        await scene.anchors.hold("a")
        await scene.anchors.drop("b")
        await scene.anchors.hold("c")


async def test_the_anchors_of_one_address_are_limited(autojump_clock: MockClock) -> None:
    """Joining and leaving many groups leaves an anchor in each for a while."""
    async with anchor_scene(linger_s=5, anchors_max=8, per_address_max=2) as scene:
        for group_id in ("a", "b"):
            await scene.anchors.hold(group_id, client_host="10.0.0.1")
        with (
            capture_logs() as lines,
            pytest.raises(NotAnchored, match="2 anchored groups per client address"),
        ):
            await scene.anchors.hold("c", client_host="10.0.0.1")
        assert [line["event"] for line in lines] == ["groups_refused"]
        await scene.anchors.hold("a", client_host="10.0.0.1")
        await scene.anchors.hold("c", client_host="10.0.0.2")
        await trio.sleep(10)
        await scene.anchors.hold("d", client_host="10.0.0.1")


async def test_a_bug_ends_no_other_anchor_and_forgets_no_lost_commit(
    autojump_clock: MockClock,
) -> None:
    """The anchor restarts after a while."""
    async with anchor_scene() as scene:
        ids = await scene.anchors.hold(GROUP)
        await scene.anchors.hold("another")

        async def break_down(message: Struct) -> None:
            if isinstance(message, JoinGroupRequest):
                raise ZeroDivisionError

        scene.connections.before = break_down
        with capture_logs() as lines:
            scene.anchors.commit_lost(GROUP, ids, 5)
            await trio.sleep(RESTART_S / 2)
        assert [line["event"] for line in lines] == ["anchor_lost", "anchor_failed"]
        assert await scene.is_held("another")
        scene.connections.before = None
        await scene.until_held()
        assert OffsetCommitEnded(commit=5) in scene.groups.ended


async def test_waiting_requests_are_released_at_the_end(autojump_clock: MockClock) -> None:
    """The drain waits for the requests in flight, so they must not wait for an anchor."""
    async with anchor_scene() as scene:
        scene.connections.before = silence

        async def hold() -> None:
            with pytest.raises(NotAnchored):
                await scene.anchors.hold(GROUP)

        with trio.fail_after(1):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hold)
                await wait_all_tasks_blocked()
                scene.anchors.release_waiting()
        with trio.fail_after(1), pytest.raises(NotAnchored):
            await scene.anchors.hold("late")


async def test_all_anchors_leave_when_the_gateways_state_is_not_kept(
    autojump_clock: MockClock,
) -> None:
    """The groups have members, which find that the next gateway may take them."""
    async with anchor_scene() as scene:
        for group_id in ("a", "b", "c"):
            await scene.anchors.hold(group_id)
            scene.groups.live.add(group_id)
        await scene.anchors.leave_all()
        assert [scene.coordinator.group(each).member_id for each in "abc"] == ["", "", ""]


async def test_leaving_is_limited_in_time(autojump_clock: MockClock) -> None:
    """Their sessions end without it."""
    async with anchor_scene() as scene:
        await scene.anchors.hold(GROUP)
        scene.connections.before = silence
        began_s = trio.current_time()
        with capture_logs() as lines:
            await scene.anchors.leave_all()
        assert trio.current_time() - began_s == pytest.approx(LEAVE_TIMEOUT_S)
        assert [line["event"] for line in lines] == ["anchors_left_behind"]


async def test_dropping_is_limited_in_time(autojump_clock: MockClock) -> None:
    """The admin must retry."""
    async with anchor_scene() as scene:
        await scene.anchors.hold(GROUP)

        async def no_leaving(message: Struct) -> None:
            if isinstance(message, LeaveGroupRequest | HeartbeatRequest):
                await trio.sleep_forever()

        scene.connections.before = no_leaving
        with pytest.raises(NotAnchored):
            await scene.anchors.drop(GROUP)


async def test_a_drop_lets_waiting_members_in_first(autojump_clock: MockClock) -> None:
    """Otherwise an admin who repeatedly deletes an empty group would keep all members out."""
    async with anchor_scene() as scene, trio.open_nursery() as nursery:
        await scene.anchors.hold(GROUP)
        gate = trio.Event()

        async def wait(message: Struct) -> None:
            await gate.wait()

        await scene.anchors.drop(GROUP)
        scene.connections.before = wait
        nursery.start_soon(scene.anchors.hold, GROUP)
        await wait_all_tasks_blocked()
        with pytest.raises(NotAnchored, match="about to join"):
            await scene.anchors.drop(GROUP)
        gate.set()
        await wait_all_tasks_blocked()
        assert await scene.is_held()
        await scene.anchors.drop(GROUP)
        assert not scene.anchors.is_here(GROUP)


async def test_a_leftover_anchor_is_taken_to_leave(
    autojump_clock: MockClock,
) -> None:
    """It is an earlier gateway's, or could not leave while the coordinator was down."""
    async with anchor_scene() as scene:
        await scene.anchors.hold(GROUP)

        async def no_leaving(message: Struct) -> None:
            if isinstance(message, LeaveGroupRequest):
                raise UpstreamError("away")

        scene.connections.before = no_leaving
        await scene.anchors.drop(GROUP)
        assert not scene.anchors.is_here(GROUP)
        assert scene.group.member_id
        scene.groups.has_left_behind = True
        assert await scene.anchors.is_there(GROUP)
        scene.connections.before = None
        await scene.anchors.drop(GROUP)
        assert not scene.group.member_id
        scene.groups.has_left_behind = False
        assert not await scene.anchors.is_there(GROUP)


async def test_without_anchors_the_cluster_is_not_asked() -> None:
    """The embedded cluster has none: commits name no member, and other clients are not kept out."""
    async with trio.open_nursery() as nursery:
        anchors = anchors_off(nursery)
        assert await anchors.hold(GROUP) is None
        assert await anchors.hold(GROUP, since_s=trio.current_time()) is None
        anchors.need(GROUP)
        anchors.commit_lost(GROUP, None, 5)
        await anchors.drop(GROUP)
        await anchors.leave_all()
    assert not anchors.is_here(GROUP)
