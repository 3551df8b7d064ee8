"""One group's task and its log: batches, and failures of the log."""

from collections.abc import Iterable
from functools import partial
from typing import cast

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import InvariantError
from coordinator.interface.events import (
    HeartbeatReceived,
)
from coordinator.interface.records import DurableRecord, MemberMetadata
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    Reply,
)
from gateway.hosting.logged_engine import LOAD_RETRY_MS, LOAD_RETRY_MS_MAX
from gateway.state_log.log import StateLogUnsure
from gateway.state_log.memory import MemoryLog
from kafka_codecs.error_codes import ErrorCode
from tests.gateway.groups.pending import Pending
from tests.support.broken_engine import break_engine
from tests.support.hosted_groups import HostedGroups, hosted_groups

# -- batches -------------------------------------------------------------------------------------


async def joining_behind_a_slow_write(groups: HostedGroups, *member_ids: str) -> list[Pending]:
    """Native members that join while the log writes an earlier batch. It completes when the gate
    opens."""
    groups.log.gate = trio.Event()
    slow = await Pending.start(groups, lambda: groups.native("first"))
    joining = [await Pending.start(groups, partial(groups.native, id_)) for id_ in member_ids]
    assert not slow.done.is_set()
    return joining


async def test_requests_wait_for_one_write(autojump_clock: MockClock) -> None:
    """A thousand joining members must not wait for a thousand writes."""
    async with hosted_groups() as groups:
        joining = await joining_behind_a_slow_write(groups, *map(str, range(30)))
        assert groups.log.gate is not None
        groups.log.gate.set()
        for pending in joining:
            await pending.done.wait()
        assert len(groups.log.batches) == 2
        replies = [cast(ConsumerHeartbeatReply, pending.reply) for pending in joining]
        assert {reply.error for reply in replies} == {ErrorCode.NONE}


async def test_a_batch_that_cannot_be_written_has_no_effect(autojump_clock: MockClock) -> None:
    """Each of its requests gets an error."""
    async with hosted_groups() as groups:
        joining = await joining_behind_a_slow_write(groups, "a", "b")
        gate, groups.log.gate = groups.log.gate, trio.Event()
        assert gate is not None
        gate.set()
        await wait_all_tasks_blocked()
        groups.log.is_failing = True
        groups.log.gate.set()
        for pending in joining:
            await pending.done.wait()
            assert isinstance(pending.reply, ConsumerHeartbeatReply)
            assert pending.reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        view = groups.view()
        assert view is not None
        assert [member.member_id for member in view.members] == ["first"]


async def test_an_oversized_record_fails_only_its_request(
    autojump_clock: MockClock,
) -> None:
    """Its client retries, and others wait for the log with it. Their batch may be too large only
    because of it."""
    async with hosted_groups() as groups:
        joining = await joining_behind_a_slow_write(groups, "a", "large", "b")
        groups.log.refuses = lambda record: (
            isinstance(record, MemberMetadata) and record.member_id == "large"
        )
        assert groups.log.gate is not None
        groups.log.gate.set()
        for pending in joining:
            await pending.done.wait()
        replies = [cast(ConsumerHeartbeatReply, pending.reply) for pending in joining]
        assert [reply.error for reply in replies] == [
            ErrorCode.NONE,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NONE,
        ]
        view = groups.view()
        assert view is not None
        assert {member.member_id for member in view.members} == {"first", "a", "b"}
        joined = [event["member_id"] for event in groups.events_named("member_joined")]
        assert joined == ["first", "a", "b"]


async def test_an_uncertain_batch_reloads_the_group(autojump_clock: MockClock) -> None:
    """The log may have the batch. The group is reloaded from it, and clients retry."""
    async with hosted_groups() as groups:
        await groups.native("n")

        async def append(group_id: str, batch: Iterable[DurableRecord]) -> None:
            await MemoryLog.append(groups.log, group_id, tuple(batch))
            raise StateLogUnsure("nobody knows")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(groups.log, "append", append)
            reply = await groups.native("m")
        assert reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await wait_all_tasks_blocked()
        view = groups.view()
        assert view is not None
        assert {member.member_id for member in view.members} == {"n", "m"}


async def test_an_internal_error_in_a_batch_spares_earlier_requests(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier decisions are applied, and then the group is reloaded."""
    async with hosted_groups() as groups:
        joining = await joining_behind_a_slow_write(groups, "a")
        beat = await Pending.start(groups, lambda: groups.beat("first", 1))
        later = await Pending.start(groups, lambda: groups.native("c"))
        break_engine(monkeypatch, HeartbeatReceived, InvariantError("a bug"))
        assert groups.log.gate is not None
        with capture_logs() as lines:
            groups.log.gate.set()
            for pending in (*joining, beat, later):
                await pending.done.wait()
        assert "group_failed" in [line["event"] for line in lines]
        replies = [cast(Reply, pending.reply) for pending in (*joining, beat, later)]
        assert [reply.error for reply in replies] == [
            ErrorCode.NONE,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NONE,
        ]


# -- a log that fails ----------------------------------------------------------------------------


async def test_a_failing_log_leaves_the_group_unchanged(autojump_clock: MockClock) -> None:
    """The group has no new member and no event, and the client retries."""
    async with hosted_groups() as groups:
        await groups.native("n")
        before, events = groups.view(), list(groups.events)
        groups.log.is_failing = True
        with capture_logs() as lines:
            reply = await groups.native("other")
        assert reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (groups.view(), groups.events) == (before, events)
        assert "state_log_failed" in [line["event"] for line in lines]
        groups.log.is_failing = False
        assert (await groups.native("other")).error is ErrorCode.NONE


async def test_a_parked_request_survives_a_failure_of_the_log(autojump_clock: MockClock) -> None:
    """The group has not changed."""
    config = GroupConfig(classic_initial_rebalance_delay_ms=0)
    async with hosted_groups(config=config) as groups:
        joined = await groups.lone_classic_member()
        second = (await groups.join()).member_id
        pending = await Pending.start(groups, lambda: groups.join(second))
        groups.log.is_failing = True
        assert (await groups.native("n")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        groups.log.is_failing = False
        assert not pending.done.is_set()
        await groups.join(joined.member_id)
        await pending.done.wait()
        assert isinstance(pending.reply, JoinGroupReply)
        assert pending.reply.generation == 2


async def test_time_passes_despite_a_failing_log(autojump_clock: MockClock) -> None:
    """An expired session is retried at a moderate pace until its records are written."""
    async with hosted_groups() as groups:
        await groups.native("n")
        groups.log.is_failing = True
        with capture_logs() as lines:
            await trio.sleep(groups.config.consumer_session_timeout_ms / 1000 + 10)
        failures = [line for line in lines if line["event"] == "state_log_failed"]
        assert 5 <= len(failures) <= 15
        assert groups.view() is not None
        groups.log.is_failing = False
        await trio.sleep(2)
        assert groups.events_named("member_fenced") == [
            {"member_id": "n", "cause": "session_expired"}
        ]


async def test_a_member_whose_heartbeat_waited_does_not_time_out(autojump_clock: MockClock) -> None:
    """The heartbeat waited behind a slow write, so the member was not silent."""
    async with hosted_groups() as groups:
        joined = await groups.lone_classic_member(session_timeout_ms=10_000)
        groups.log.gate = trio.Event()
        slow = await Pending.start(groups, lambda: groups.native("n"))
        await groups.log.writing.wait()
        beat = await Pending.start(groups, lambda: groups.beat(joined.member_id, joined.generation))
        await trio.sleep(30)
        groups.log.gate.set()
        await slow.done.wait()
        await beat.done.wait()
        await wait_all_tasks_blocked()
        assert groups.events_named("member_fenced") == []


async def test_requests_to_an_unreadable_group_are_retried(
    autojump_clock: MockClock,
) -> None:
    """The refusal is immediate, as by a coordinator that is loading. SyncGroup is asked to rejoin,
    and a classic Heartbeat succeeds. One log line reports it, and the group is loaded once the log
    recovers."""
    async with hosted_groups() as groups:
        groups.log.is_unreadable = True
        with capture_logs() as lines:
            for _ in range(20):
                began = trio.current_time()
                refused = await groups.native("n")
                assert refused.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                assert (await groups.sync("n", 1)).error is ErrorCode.REBALANCE_IN_PROGRESS
                assert (await groups.beat("n", 1)).error is ErrorCode.NONE
                assert trio.current_time() == began
                await trio.sleep(1)
            groups.log.is_unreadable = False
            await trio.sleep(LOAD_RETRY_MS_MAX / 1000)
            assert (await groups.native("n")).error is ErrorCode.NONE
        (failure,) = [line for line in lines if line["event"] == "group_load_failed"]
        assert (failure["log_level"], failure["next_retry_s"]) == ("error", LOAD_RETRY_MS / 1000)
        assert len(groups.events_named("member_joined")) == 1
