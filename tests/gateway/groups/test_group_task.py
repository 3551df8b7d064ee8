"""One group's task: in which order things happen, when it begins and when it ends."""

import pytest
import structlog
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.config import GroupConfig
from coordinator.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    OffsetVerdict,
    SyncGroupReply,
)
from gateway.groups.inbox import INBOX_MAX
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_script import read_assignment
from tests.support.hosted_groups import GROUP, QUIET_S, HostedGroups, hosted_groups
from tests.support.pending import Pending

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
    """The first member waits for the initial delay, and its answer leaves when that is over."""
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
    """A follower's SyncGroup is answered by the leader's."""
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
    """What a client was told must survive the gateway."""
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


async def test_a_token_names_one_request_of_all_groups(autojump_clock: MockClock) -> None:
    """Commits in flight are named by it, also when a group's task ended and another began."""
    async with hosted_groups() as groups:
        tokens = {(await groups.commit("", -1, {"foo": [0]}, group=g))[0] for g in ("a", "b", "a")}
        assert len(tokens) == 3


async def test_a_request_is_carried_out_whose_client_has_gone(autojump_clock: MockClock) -> None:
    """Consumers that close send LeaveGroup and hang up."""
    async with hosted_groups() as groups:
        joined = await groups.lone_classic_member()
        groups.log.gate = trio.Event()
        pending = await Pending.start(groups, lambda: groups.leave(joined.member_id))
        pending.scope.cancel()
        groups.log.gate.set()
        await wait_all_tasks_blocked()
        assert [each["member_id"] for each in groups.told("member_left")] == [joined.member_id]


async def test_refusals_are_logged_with_their_reason(autojump_clock: MockClock) -> None:
    """The classic answers carry no message, so the log must."""
    async with hosted_groups() as groups:
        await groups.native("n")
        with capture_logs() as lines:
            await groups.beat("stranger", 1)
        (line,) = [line for line in lines if line["event"] == "request_refused"]
        assert line["error_code"] == "UNKNOWN_MEMBER_ID"
        assert line["group_id"] == GROUP
        assert "stranger" in line["reason"]


# -- ends and beginnings -------------------------------------------------------------------------


async def test_the_task_ends_when_the_group_is_quiet(autojump_clock: MockClock) -> None:
    """No member, nothing parked, no deadline: then its state is in the log alone."""
    async with hosted_groups() as groups:
        await groups.native("n")
        assert groups.view() is not None
        await groups.native("n", -1)
        await trio.sleep(QUIET_S)
        assert groups.running == ()


async def test_no_request_is_lost_between_two_tasks(autojump_clock: MockClock) -> None:
    """One task ends while the next request is on its way to it: it is answered all the same."""
    async with hosted_groups() as groups:
        verdicts: list[OffsetVerdict] = []

        async def fetch_for_ever() -> None:
            verdicts.extend([await groups.fetch({"foo": [0]}) for _ in range(50)])

        with trio.fail_after(1):
            async with trio.open_nursery() as nursery:
                for _ in range(2 * INBOX_MAX):
                    nursery.start_soon(fetch_for_ever)
        assert verdicts == [OffsetVerdict()] * (2 * INBOX_MAX * 50)
        await wait_all_tasks_blocked()
        assert groups.running == ()


async def test_a_task_whose_only_request_never_came_ends(autojump_clock: MockClock) -> None:
    """The client was gone before its request was in the inbox."""
    async with hosted_groups() as groups:
        with trio.CancelScope() as scope:
            scope.cancel()
            await groups.native("n")
        await wait_all_tasks_blocked()
        assert groups.running == ()


async def test_a_group_comes_back_from_its_log(autojump_clock: MockClock) -> None:
    """The next task goes on where the last one ended."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        await groups.native("n", -1)
        await trio.sleep(QUIET_S)
        assert groups.running == ()
        again = await groups.native("n")
        assert again.member_epoch > joined.member_epoch


async def test_the_task_takes_no_name_from_the_connection_that_started_it(
    autojump_clock: MockClock,
) -> None:
    """What a group does later has nothing to do with its first client's connection."""
    async with hosted_groups() as groups:
        with structlog.contextvars.bound_contextvars(connection_id="c1"):
            await groups.native("n")
        merge = structlog.contextvars.merge_contextvars
        with capture_logs(processors=[merge]) as lines:
            await groups.native("other")
        assert lines
        assert all("connection_id" not in line for line in lines)


# -- pauses --------------------------------------------------------------------------------------


async def test_nobody_is_timed_out_because_we_were_away(mock_clock: MockClock) -> None:
    """After a pause longer than a session, the group runs before what members said meanwhile has
    come out of their sockets. Who is really gone is timed out a little later."""
    config = GroupConfig()
    pause_ms = config.consumer_session_timeout_ms + config.consumer_heartbeat_interval_ms
    async with hosted_groups(config=config) as groups:
        joined = await groups.native("alive")
        await groups.native("dead")
        mock_clock.jump(pause_ms / 1000)
        await wait_all_tasks_blocked()
        assert (await groups.native("alive", joined.member_epoch)).error is ErrorCode.NONE
        assert groups.told("member_fenced") == []
        mock_clock.autojump_threshold = 0
        await trio.sleep(config.reconnect_timeout_ms / 1000 + 1)
        assert [each["member_id"] for each in groups.told("member_fenced")] == ["dead"]


# -- draining ------------------------------------------------------------------------------------


async def test_draining_answers_what_is_parked(autojump_clock: MockClock) -> None:
    """A rebalance must not hold up the end of the gateway."""
    async with hosted_groups() as groups:
        member_id = (await groups.join()).member_id
        pending = await Pending.start(groups, lambda: groups.join(member_id))
        started = trio.current_time()
        groups.registry.release_waiting()
        await pending.done.wait()
        assert trio.current_time() == started
        assert isinstance(pending.reply, JoinGroupReply)
        assert pending.reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("is_new_group", [False, True])
async def test_while_draining_nothing_is_parked_any_more(
    autojump_clock: MockClock, is_new_group: bool
) -> None:
    """Requests that were on their way when the gateway was told to stop."""
    async with hosted_groups() as groups:
        if not is_new_group:
            await groups.join()
        groups.registry.release_waiting()
        with trio.fail_after(1):
            reply = await groups.join(version=3)  # that version is not sent away for an id first
        assert reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_draining_meets_a_request_that_is_not_decided_yet(
    autojump_clock: MockClock,
) -> None:
    """It is decided first: what becomes durable is also answered."""
    async with hosted_groups() as groups:
        groups.log.gate = trio.Event()
        pending = await Pending.start(groups, lambda: groups.native("n"))
        groups.registry.release_waiting()
        await wait_all_tasks_blocked()
        assert not pending.done.is_set()
        groups.log.gate.set()
        await pending.done.wait()
        assert groups.told("member_joined")
        assert isinstance(pending.reply, ConsumerHeartbeatReply)
        assert pending.reply.error is ErrorCode.NONE
