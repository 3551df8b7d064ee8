"""How one anchor takes, keeps, loses and leaves its group. In front of real brokers: see
test_promises_with_kafka.py."""

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


async def test_it_is_held_once_joined_and_synced(autojump_clock: MockClock) -> None:
    """A new group takes one JoinGroup; only then do the ids exist."""
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
    """A few seconds apart, never quite the same."""
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


# -- losing it -----------------------------------------------------------------------------------


async def test_a_removed_anchor_is_taken_again_at_once(autojump_clock: MockClock) -> None:
    """The next heartbeat tells; nothing is waited for then."""
    async with anchor_scene() as scene:
        before = await scene.anchors.hold(GROUP)
        scene.groups.live.add(GROUP)
        scene.group.remove_member()
        with capture_logs() as lines:
            await trio.sleep(2 * HEARTBEAT_INTERVAL_S)
        assert [line["event"] for line in lines] == ["anchor_lost", "anchor_taken"]
        assert "UNKNOWN_MEMBER_ID" in lines[0]["reason"]
        assert await scene.anchors.hold(GROUP) != before
        assert scene.groups.looks == [], "nobody else can be inside, the join would have told"


async def test_a_commit_is_sooner_to_tell(autojump_clock: MockClock) -> None:
    """Once only: whoever had the old ids as well doubts nothing that is repaired already."""
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


async def test_whoever_gives_something_away_is_sooner_to_tell(autojump_clock: MockClock) -> None:
    """The cluster is asked before partitions are given to anybody, once for all who give them."""
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


async def test_who_was_replaced_looks_before_it_comes_back(autojump_clock: MockClock) -> None:
    """A newer gateway with the same log has it, and keeps it: two that take it from each other in
    turn would both grant. Unless it was a join of our own that came late."""
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
async def test_whatever_says_that_somebody_else_is_there_makes_us_look(
    code: ErrorCode, autojump_clock: MockClock
) -> None:
    """Consumers of either protocol, a group of another kind, more members than there may be."""
    async with anchor_scene() as scene:
        scene.coordinator.refuses_joins_with = code
        scene.groups.verdict = GroupHolder.THEIRS
        with pytest.raises(NotAnchored, match="another member"):
            await scene.anchors.hold(GROUP)
        assert scene.groups.looks == [False]


@pytest.mark.parametrize("protocol", [("consumer", "range"), ("groupferry", "log-2")])
async def test_somebody_else_is_not_pushed_out(
    protocol: tuple[str, str], autojump_clock: MockClock
) -> None:
    """The cluster refuses us; those who serve the group find out who it is, and give route."""
    async with anchor_scene() as scene:
        scene.coordinator.groups[GROUP] = FakeGroup(
            protocol_type=protocol[0], protocol=protocol[1], member_id="theirs", is_synced=True
        )
        scene.groups.verdict = GroupHolder.THEIRS
        with pytest.raises(NotAnchored, match="another member is in the group"):
            await scene.anchors.hold(GROUP)
        assert scene.groups.looks == [False]
        assert not scene.anchors.is_here(GROUP)


async def test_a_group_with_members_but_without_an_anchor_is_looked_at_first(
    autojump_clock: MockClock,
) -> None:
    """It may have been given away a moment ago: our join would take it from a newer gateway."""
    async with anchor_scene() as scene:
        scene.groups.live.add(GROUP)
        scene.groups.verdict = GroupHolder.THEIRS
        with pytest.raises(NotAnchored):
            await scene.anchors.hold(GROUP)
        assert scene.connections.asked == []


async def test_as_long_as_nobody_can_say_whose_it_is_it_is_not_taken(
    autojump_clock: MockClock,
) -> None:
    """Then it is."""
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


async def test_a_silent_coordinator_keeps_us_for_a_session(autojump_clock: MockClock) -> None:
    """From the last heartbeat that it answered: no longer may we count on it, and as soon as it
    speaks again we take the group anew."""
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


async def test_a_heartbeat_that_fails_is_soon_repeated(autojump_clock: MockClock) -> None:
    """The session runs on: there is no time to lose."""
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


async def test_it_follows_its_coordinator(autojump_clock: MockClock) -> None:
    """It keeps its ids: the group was persisted."""
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


# -- commits whose answer was lost ---------------------------------------------------------------


async def held_commit(scene: AnchorScene) -> None:
    """The answer to commit 5 is lost."""
    ids = await scene.anchors.hold(GROUP)
    scene.anchors.commit_lost(GROUP, ids, 5)


def ends(scene: AnchorScene) -> list[tuple[int, bool]]:
    """Each event that the group got about a commit."""
    return [(event.commit, event.answer_lost) for event in scene.groups.ended]


async def test_a_lost_answer_is_over_when_the_anchor_is_another_member(
    autojump_clock: MockClock,
) -> None:
    """And Stable: before that a coordinator that fails over would know the old one again."""
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


async def test_a_commit_lost_under_an_earlier_member_id_is_over_at_once(
    autojump_clock: MockClock,
) -> None:
    """Its client noticed late; no more is needed than has happened."""
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


async def test_a_lost_commit_of_nobodys_ends_when_the_group_is_held(
    autojump_clock: MockClock,
) -> None:
    """A consumer that assigns itself died during its commit to a group without an anchor: from the
    anchor's join on the cluster refuses it, and without one nothing would ever tell its end."""
    async with anchor_scene(linger_s=1) as scene:
        scene.anchors.commit_lost(GROUP, None, 5)
        assert ends(scene) == [(5, True)]
        await scene.until_held()
        assert ends(scene) == [(5, True), (5, False)]
        await trio.sleep(10)
        assert not scene.anchors.is_here(GROUP)


async def test_a_lost_answer_keeps_the_anchor_at_it(autojump_clock: MockClock) -> None:
    """Though nobody is in the group any more, and the coordinator away for long."""
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


# -- leaving -------------------------------------------------------------------------------------


async def test_it_lingers_after_the_last_member(autojump_clock: MockClock) -> None:
    """A consumer that restarts finds it there; in the end it leaves."""
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


async def test_it_leaves_at_once_when_dropped(autojump_clock: MockClock) -> None:
    """An admin deletes the group: the cluster must find it empty."""
    async with anchor_scene() as scene:
        await scene.anchors.hold(GROUP)
        began_s = trio.current_time()
        await scene.anchors.drop(GROUP)
        assert trio.current_time() - began_s < 0.1
        assert scene.group.member_id == ""
        await scene.anchors.drop(GROUP)  # nothing to let go of


async def test_it_comes_back_for_who_joins_while_it_leaves(autojump_clock: MockClock) -> None:
    """A member came in the last moment: it is held again before that one gets anything."""
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
