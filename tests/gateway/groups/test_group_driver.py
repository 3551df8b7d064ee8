"""The task of one group: its order, its start and its end."""

from dataclasses import replace

import pytest
import structlog
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.interface.config import GroupConfig
from coordinator.interface.events import LEAVE_EPOCH
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    OffsetReply,
    SyncGroupReply,
)
from gateway.groups.group_driver import CLOSES_WITHIN_S, GroupDriver
from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import Abandoned, Call, Commits
from gateway.hosting.logged_engine import BEFORE_A_DEADLINE_MAX
from kafka_codecs.error_codes import ErrorCode
from tests.gateway.groups.pending import Pending
from tests.support.engine_requests import native_received
from tests.support.group_script import read_assignment
from tests.support.hosted_groups import GROUP, QUIET_S, HostedGroups, hosted_groups

# -- answers -------------------------------------------------------------------------------------


async def joined_together(groups: HostedGroups, *member_ids: str) -> dict[str, JoinGroupReply]:
    """The answers to JoinGroups that wait for each other."""
    answers: dict[str, JoinGroupReply] = {}

    async def join(member_id: str) -> None:
        answers[member_id] = await groups.join(member_id)

    async with trio.open_nursery() as nursery:
        for member_id in member_ids:
            nursery.start_soon(join, member_id)
    return answers


async def test_a_parked_join_is_answered_by_a_later_step(autojump_clock: MockClock) -> None:
    """The first member's answer waits for the initial delay."""
    async with hosted_groups() as groups:
        member_id = (await groups.join()).member_id
        pending = await Pending.start(groups, lambda: groups.join(member_id))
        assert not pending.done.is_set()
        await pending.done.wait()
        assert trio.current_time() >= 3
        assert isinstance(pending.reply, JoinGroupReply)
        assert (pending.reply.generation, pending.reply.leader) == (1, member_id)


async def test_members_that_wait_for_each_other_are_answered_in_one_step(
    autojump_clock: MockClock,
) -> None:
    """The leader's SyncGroup answers those of its followers."""
    async with hosted_groups() as groups:
        ids = [(await groups.join()).member_id for _ in range(2)]
        answers = await joined_together(groups, *ids)
        leader = answers[ids[0]].leader
        follower = next(id_ for id_ in ids if id_ != leader)
        pending = await Pending.start(groups, lambda: groups.sync(follower, 1))
        assert not pending.done.is_set()
        await groups.sync(leader, 1, assignments={follower: {"foo": [2]}})
        await pending.done.wait()
        assert isinstance(pending.reply, SyncGroupReply)
        assert read_assignment(pending.reply.assignment) == {"foo": (2,)}


async def test_the_answer_leaves_after_the_records_are_durable(autojump_clock: MockClock) -> None:
    """An answer must survive the end of the gateway."""
    async with hosted_groups() as groups:
        groups.log.gate = trio.Event()
        pending = await Pending.start(groups, lambda: groups.native("n"))
        assert groups.log.writing.is_set()
        assert not pending.done.is_set()
        assert groups.log.batches == []
        assert not groups.events
        groups.log.gate.set()
        await pending.done.wait()
        assert len(groups.log.batches) == 1


async def test_a_call_of_a_group_that_another_process_takes_is_refused(
    autojump_clock: MockClock,
) -> None:
    """A slow disk still holds its decision. No traceback reports a bug."""
    async with hosted_groups() as groups:
        groups.log.gate = trio.Event()
        pending = await Pending.start(groups, lambda: groups.native("n"))
        assert groups.log.writing.is_set()
        groups.driver().close()
        await pending.done.wait()
        assert isinstance(pending.reply, ConsumerHeartbeatReply)
        assert pending.reply.error is ErrorCode.NOT_COORDINATOR


async def test_a_commit_of_a_group_that_another_process_takes_ends_its_connection(
    autojump_clock: MockClock,
) -> None:
    """Whether the cluster has the commit is unknown. No traceback reports a bug."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        token, decision = await groups.commit("n", joined.member_epoch, {"foo": [0]})
        assert decision.error is ErrorCode.NONE
        (call,) = groups.driver().group.calls.by_token.values()
        groups.driver().close()
        assert isinstance(call, Commits)
        assert token in call.commits
        assert isinstance(call.answer, Abandoned)


async def test_a_token_is_unique_among_all_groups(autojump_clock: MockClock) -> None:
    """Commits in flight keep their tokens when a group's task ends and another begins."""
    async with hosted_groups() as groups:
        tokens = {(await groups.commit("", -1, {"foo": [0]}, group=g))[0] for g in ("a", "b", "a")}
        assert len(tokens) == 3


async def test_a_request_of_a_disconnected_client_is_handled(autojump_clock: MockClock) -> None:
    """Closing consumers send LeaveGroup and disconnect."""
    async with hosted_groups() as groups:
        joined = await groups.lone_classic_member()
        groups.log.gate = trio.Event()
        pending = await Pending.start(groups, lambda: groups.leave(joined.member_id))
        pending.scope.cancel()
        groups.log.gate.set()
        await wait_all_tasks_blocked()
        assert [event["member_id"] for event in groups.events_named("member_left")] == [
            joined.member_id
        ]


async def leaving(groups: HostedGroups) -> tuple[Call, GroupDriver]:
    """A member's leave, which waits for the log."""
    await groups.native("n")
    groups.log.gate, groups.events = trio.Event(), []
    event = native_received("n", LEAVE_EPOCH)
    call = Call(api=GroupApi.CONSUMER_LEAVE, is_placed=True, event=event, token=event.token)
    driver = groups.table.drivers.driver(GROUP)
    assert driver.begin(call) is None
    return call, driver


async def test_a_call_can_be_watched_without_a_task(autojump_clock: MockClock) -> None:
    """A watcher learns of the answer once it may leave: the records are in the log, and the events
    are written."""
    async with hosted_groups() as groups:
        call, driver = await leaving(groups)
        heard: list[tuple[object, int]] = []
        assert driver.watch(call, lambda: heard.append((call.answer, len(groups.events))))
        await wait_all_tasks_blocked()
        assert not heard
        assert groups.log.gate is not None
        groups.log.gate.set()
        await wait_all_tasks_blocked()
        ((answer, reply),) = heard
        assert isinstance(answer, ConsumerHeartbeatReply)
        assert reply == len(groups.events) > 0
        assert not driver.watch(call, lambda: None)


async def test_an_abandoned_call_is_decided(autojump_clock: MockClock) -> None:
    """No client learns of it any more."""
    async with hosted_groups() as groups:
        call, driver = await leaving(groups)
        assert driver.watch(call, lambda: pytest.fail("the client has gone"))
        driver.abandon(call)
        assert groups.log.gate is not None
        groups.log.gate.set()
        await wait_all_tasks_blocked()
        assert groups.events_named("member_left")


async def test_refusals_are_logged_with_their_reason(autojump_clock: MockClock) -> None:
    """Classic answers carry no message."""
    async with hosted_groups() as groups:
        await groups.native("n")
        with capture_logs() as lines:
            await groups.beat("stranger", 1)
        (line,) = [line for line in lines if line["event"] == "request_refused"]
        assert line["error_code"] == "UNKNOWN_MEMBER_ID"
        assert line["group_id"] == GROUP
        assert "stranger" in line["reason"]


# -- start and end ---------------------------------------------------------------------------------


async def test_the_task_ends_when_the_group_is_quiet(autojump_clock: MockClock) -> None:
    """Without members, parked requests and deadlines, its state is only in the log."""
    async with hosted_groups() as groups:
        await groups.native("n")
        assert groups.view() is not None
        await groups.native("n", -1)
        await trio.sleep(QUIET_S)
        assert groups.running == ()


async def test_no_request_is_lost_between_two_tasks(autojump_clock: MockClock) -> None:
    """A request that arrives while one task ends is answered by the next."""
    async with hosted_groups() as groups:
        verdicts: list[OffsetReply] = []

        async def fetch_for_ever() -> None:
            verdicts.extend([await groups.fetch({"foo": [0]}) for _ in range(50)])

        with trio.fail_after(1):
            async with trio.open_nursery() as nursery:
                for _ in range(2 * BEFORE_A_DEADLINE_MAX):
                    nursery.start_soon(fetch_for_ever)
        assert verdicts == [OffsetReply()] * (2 * BEFORE_A_DEADLINE_MAX * 50)
        await wait_all_tasks_blocked()
        assert groups.running == ()


async def test_a_task_without_a_request_ends(autojump_clock: MockClock) -> None:
    """The client disconnected before its request reached the inbox."""
    async with hosted_groups() as groups:
        with trio.CancelScope() as scope:
            scope.cancel()
            await groups.native("n")
        await wait_all_tasks_blocked()
        assert groups.running == ()


async def test_a_group_is_restored_from_its_log(autojump_clock: MockClock) -> None:
    """The next task continues where the last one ended."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        await groups.native("n", -1)
        await trio.sleep(QUIET_S)
        assert groups.running == ()
        again = await groups.native("n")
        assert again.member_epoch > joined.member_epoch


async def test_a_group_that_is_held_by_its_name_is_held_once_it_is_loaded(
    autojump_clock: MockClock,
) -> None:
    """Each first request of a group loads it."""
    async with hosted_groups() as groups:
        drivers = groups.table.drivers
        drivers._rules = replace(drivers._rules, hold_patterns=(GROUP,))
        await groups.lone_classic_member()
        refused = await groups.native("n")
    assert refused.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "groupferry allow" in refused.reason


async def test_the_task_has_no_log_context_of_its_first_connection(
    autojump_clock: MockClock,
) -> None:
    """Later work of the group is independent of that client."""
    async with hosted_groups() as groups:
        with structlog.contextvars.bound_contextvars(connection_id="c1"):
            await groups.native("n")
        merge = structlog.contextvars.merge_contextvars
        with capture_logs(processors=[merge]) as lines:
            await groups.native("other")
        assert lines
        assert all("connection_id" not in line for line in lines)


# -- pauses --------------------------------------------------------------------------------------


async def test_no_member_times_out_because_of_a_pause(mock_clock: MockClock) -> None:
    """After a pause longer than a session, the group runs before the members' requests are read
    from their sockets. Members that are really gone time out a little later."""
    config = GroupConfig()
    pause_ms = config.consumer_session_timeout_ms + config.consumer_heartbeat_interval_ms
    async with hosted_groups(config=config) as groups:
        joined = await groups.native("alive")
        await groups.native("dead")
        mock_clock.jump(pause_ms / 1000)
        await wait_all_tasks_blocked()
        assert (await groups.native("alive", joined.member_epoch)).error is ErrorCode.NONE
        assert groups.events_named("member_fenced") == []
        mock_clock.autojump_threshold = 0
        await trio.sleep(config.reconnect_timeout_ms / 1000 + 1)
        assert [event["member_id"] for event in groups.events_named("member_fenced")] == ["dead"]


# -- draining ------------------------------------------------------------------------------------


async def test_draining_answers_parked_requests(autojump_clock: MockClock) -> None:
    """A rebalance must not delay the end of the gateway."""
    async with hosted_groups() as groups:
        member_id = (await groups.join()).member_id
        pending = await Pending.start(groups, lambda: groups.join(member_id))
        started = trio.current_time()
        groups.table.release_waiting()
        await pending.done.wait()
        assert trio.current_time() == started
        assert isinstance(pending.reply, JoinGroupReply)
        assert pending.reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("is_new_group", [False, True])
async def test_draining_parks_no_request(autojump_clock: MockClock, is_new_group: bool) -> None:
    """These requests arrive after the gateway was told to stop."""
    async with hosted_groups() as groups:
        if not is_new_group:
            await groups.join()
        groups.table.release_waiting()
        with trio.fail_after(1):
            reply = await groups.join(version=3)  # this version needs no id first
        assert reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_draining_decides_a_pending_request(
    autojump_clock: MockClock,
) -> None:
    """A request whose records become durable is answered."""
    async with hosted_groups() as groups:
        groups.log.gate = trio.Event()
        pending = await Pending.start(groups, lambda: groups.native("n"))
        groups.table.release_waiting()
        await wait_all_tasks_blocked()
        assert not pending.done.is_set()
        groups.log.gate.set()
        await pending.done.wait()
        assert groups.events_named("member_joined")
        assert isinstance(pending.reply, ConsumerHeartbeatReply)
        assert pending.reply.error is ErrorCode.NONE


@pytest.mark.parametrize("is_connected", [True, False])
async def test_a_member_that_left_and_keeps_its_connection_is_not_waited_for(
    autojump_clock: MockClock, is_connected: bool
) -> None:
    """The member was stuck, and is not being restarted (rule 3.16). Another client that closes its
    connection comes back within the grace."""
    config = GroupConfig(
        replacement_grace_ms=60_000, unaffected_members_rejoin=False, rolled_since_ms=2**50
    )
    async with hosted_groups(config=config) as groups:
        ids = [(await groups.join()).member_id for _ in range(2)]
        answers = await joined_together(groups, *ids)
        leader = answers[ids[0]].leader
        follower = next(id_ for id_ in ids if id_ != leader)
        pending = await Pending.start(groups, lambda: groups.sync(follower, 1))
        await groups.sync(leader, 1, assignments={leader: {"foo": [0]}, follower: {"foo": [1]}})
        await pending.done.wait()
        await groups.leave(follower)
        driver = groups.table.drivers.driver(GROUP)
        assert driver.group.engine.core.state.member_slots
        driver.watch_leaver(follower, lambda: is_connected)
        await trio.sleep(CLOSES_WITHIN_S + 0.1)
        assert bool(driver.group.engine.core.state.member_slots) is not is_connected
