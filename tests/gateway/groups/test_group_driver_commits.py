"""One group's task and its commits in flight: none is forgotten before it ends."""

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.interface.errors import InvariantError
from coordinator.interface.events import (
    OffsetCommitEnded,
    SyncGroupReceived,
)
from coordinator.interface.replies import (
    OffsetReply,
)
from gateway.groups.group_driver import GroupDriver
from gateway.hosting.calls import PendingAction
from gateway.hosting.logged_engine import BEFORE_A_DEADLINE_MAX
from kafka_codecs.error_codes import ErrorCode
from tests.gateway.groups.pending import Pending
from tests.support.broken_engine import break_engine
from tests.support.hosted_groups import QUIET_S, hosted_groups


async def test_a_commit_in_flight_keeps_the_group_in_memory(autojump_clock: MockClock) -> None:
    """Its partitions count as held until the cluster has answered."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        token, _ = await groups.commit("n", joined.member_epoch, {"foo": [0]})
        await groups.native("n", -1)
        await trio.sleep(QUIET_S)
        assert groups.view() is not None
        groups.end_commit(OffsetCommitEnded(commit=token))
        await wait_all_tasks_blocked()
        assert groups.view() is None


async def test_a_commit_ends_while_the_group_is_busy(autojump_clock: MockClock) -> None:
    """Reporting the end never blocks, behind a slow log or a full inbox."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        token, _ = await groups.commit("n", joined.member_epoch, {"foo": [0]})
        groups.log.gate = trio.Event()
        pending = [
            await Pending.start(groups, lambda: groups.native("n", joined.member_epoch))
            for _ in range(BEFORE_A_DEADLINE_MAX + 10)
        ]
        groups.end_commit(OffsetCommitEnded(commit=token))
        groups.log.gate.set()
        for commit in pending:
            await commit.done.wait()
        await groups.native("n", -1)
        await trio.sleep(QUIET_S)
        assert groups.view() is None


async def test_a_commit_without_a_member_keeps_the_group_in_memory(
    autojump_clock: MockClock,
) -> None:
    """A member that joins before the cluster has answered must not start before that commit."""
    async with hosted_groups() as groups:
        token, _ = await groups.commit("", -1, {"foo": [0]})
        await trio.sleep(QUIET_S)
        assert groups.running
        groups.end_commit(OffsetCommitEnded(commit=token))
        await wait_all_tasks_blocked()
        assert groups.running == ()


async def test_the_end_of_a_commit_of_an_ended_group_is_ignored(
    autojump_clock: MockClock,
) -> None:
    """An answer that counted as lost may arrive after its group has ended."""
    async with hosted_groups() as groups:
        token, _ = await groups.commit("", -1, {"foo": [0]})
        for _ in range(2):
            groups.end_commit(OffsetCommitEnded(commit=token))
            await wait_all_tasks_blocked()
            assert groups.running == ()


async def test_a_commit_whose_client_disconnected_before_the_verdict_ends(
    autojump_clock: MockClock,
) -> None:
    """The commit is not sent to the cluster, so no answer would end it."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        groups.log.gate = trio.Event()
        busy = await Pending.start(groups, lambda: groups.native("m"))
        pending = await Pending.start(
            groups, lambda: groups.commit("n", joined.member_epoch, {"foo": [0]})
        )
        pending.scope.cancel()
        await pending.done.wait()
        assert pending.reply is None
        groups.log.gate.set()
        await busy.done.wait()
        await groups.native("m", -1)
        await groups.native("n", -1)
        await trio.sleep(QUIET_S)
        assert groups.view() is None


async def test_a_commit_whose_client_disconnects_at_the_verdict_ends(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request is cancelled before it can read the verdict."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        with monkeypatch.context() as patched, trio.CancelScope() as asking:
            start_action = GroupDriver.start_action

            def cancel_and_run(driver: GroupDriver, pending_action: PendingAction) -> None:
                asking.cancel()
                start_action(driver, pending_action)

            patched.setattr(GroupDriver, "start_action", cancel_and_run)
            await groups.commit("n", joined.member_epoch, {"foo": [0]})
        assert asking.cancelled_caught
        await groups.native("n", -1)
        hold_ms = groups.config.lost_commit_hold_ms  # it may have been sent
        assert hold_ms is not None
        await trio.sleep(hold_ms / 1000 + QUIET_S)
        assert groups.view() is None


async def test_a_commit_ends_despite_a_failing_log(autojump_clock: MockClock) -> None:
    """The end of a commit may complete a rebalance, whose records are retried."""
    async with hosted_groups() as groups:
        first = await groups.native("a")
        token, _ = await groups.commit("a", first.member_epoch, {"foo": [0]})
        groups.log.is_failing = True
        groups.end_commit(OffsetCommitEnded(commit=token))
        await wait_all_tasks_blocked()
        groups.log.is_failing = False
        await trio.sleep(2)
        left = await groups.native("a", -1)
        assert left.error is ErrorCode.NONE
        await trio.sleep(QUIET_S)
        assert groups.view() is None, "a commit in flight would keep the group in memory"


async def test_a_commit_in_flight_survives_a_reload(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is in no log, but the cluster may still store it. Its member keeps the
    partitions."""
    async with hosted_groups() as groups:
        first = await groups.native("a")
        token, decision = await groups.commit("a", first.member_epoch, {"foo": [0, 1, 2]})
        assert decision == OffsetReply()
        break_engine(monkeypatch, SyncGroupReceived, InvariantError("any"))
        with capture_logs():
            await groups.sync("nobody", 1)
        left = await groups.native("a", -1)
        assert left.error is ErrorCode.NONE
        second = await groups.native("b")
        await trio.sleep(QUIET_S)
        waiting = await groups.native("b", second.member_epoch, owned={})
        assert not waiting.assignment
        groups.end_commit(OffsetCommitEnded(commit=token))
        await wait_all_tasks_blocked()
        given = await groups.native("b", waiting.member_epoch, owned={})
        assert given.assignment is not None
        assert len(given.assignment) == 3


async def test_a_lost_commit_survives_a_reload(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No client can fetch the offset while the cluster may still store the commit."""
    async with hosted_groups() as groups:
        first = await groups.native("a")
        token, _ = await groups.commit("a", first.member_epoch, {"foo": [0]})
        groups.end_commit(OffsetCommitEnded(commit=token, answer_lost=True))
        await wait_all_tasks_blocked()
        break_engine(monkeypatch, SyncGroupReceived, InvariantError("any"))
        with capture_logs():
            await groups.sync("nobody", 1)
        refused = await groups.fetch({"foo": [0]})
        assert refused.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await trio.sleep((groups.config.lost_commit_hold_ms or 0) / 1000)
        await wait_all_tasks_blocked()  # a request at the same instant is served first
        assert (await groups.fetch({"foo": [0]})).error is ErrorCode.NONE


async def test_the_end_of_a_commit_survives_an_internal_error(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is handled again a little later, because the cluster has answered."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        token, _ = await groups.commit("n", joined.member_epoch, {"foo": [0]})
        break_engine(monkeypatch, OffsetCommitEnded, InvariantError("any"))
        with capture_logs():
            groups.end_commit(OffsetCommitEnded(commit=token))
            await trio.sleep(QUIET_S)
        await groups.native("n", -1)
        await trio.sleep(QUIET_S)
        assert groups.view() is None
