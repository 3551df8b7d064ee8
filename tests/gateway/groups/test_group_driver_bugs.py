"""One group's task survives internal errors: the group is reloaded, and other groups continue."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.engine import GroupEngine, Step
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import InvariantError
from coordinator.interface.events import (
    ClaimReceived,
    ConsumerHeartbeatReceived,
    Event,
    Request,
    TimePassed,
)
from coordinator.interface.records import DurableRecord
from coordinator.interface.replies import (
    JoinGroupReply,
)
from coordinator.interface.topics import Topics
from gateway.events.group_events import GroupLoaded, HostingEnded, HostingStarted
from gateway.groups.group_drivers import GroupFailed, GroupRefused
from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import Call
from gateway.hosting.effects import Effect
from gateway.hosting.group import HostedGroup
from gateway.hosting.inputs import Input, Leave, Paused
from kafka_codecs.error_codes import ErrorCode
from tests.gateway.groups.pending import Pending
from tests.support.broken_engine import break_engine
from tests.support.hosted_groups import GROUP, ScriptedLog, hosted_groups


@pytest.mark.parametrize("bug", [InvariantError("two owners"), KeyError("n"), ZeroDivisionError()])
async def test_a_broken_rule_reloads_the_group_and_answers_all_requests(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, bug: Exception
) -> None:
    """The group restarts from its records, and waiting clients retry."""
    config = GroupConfig(classic_initial_rebalance_delay_ms=0)
    async with hosted_groups(config=config) as groups:
        elsewhere = await groups.native("elsewhere", group="another")
        await groups.lone_classic_member()
        second = (await groups.join()).member_id
        parked = await Pending.start(groups, lambda: groups.join(second))
        break_engine(monkeypatch, ConsumerHeartbeatReceived, bug)
        with capture_logs() as lines:
            broken = await groups.native("n")
        assert broken.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await parked.done.wait()
        assert isinstance(parked.reply, JoinGroupReply)
        assert parked.reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        (failure,) = [line for line in lines if line["log_level"] == "error"]
        assert failure["event"] == "group_failed"
        assert failure["group_id"] == GROUP
        assert failure["event_type"] == "ConsumerHeartbeatReceived"
        assert isinstance(failure["exc_info"], type(bug))
        await wait_all_tasks_blocked()
        view = groups.view()
        assert view is not None
        assert [member.client_id for member in view.members] == ["client"]
        assert (await groups.native("n")).error is ErrorCode.NONE
        beaten = await groups.native("elsewhere", elsewhere.member_epoch, group="another")
        assert beaten.error is ErrorCode.NONE


async def test_a_bug_in_a_timer_causes_no_busy_loop(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline expires again with the sessions that the reload restarts."""
    real = GroupEngine.handle
    failures = 0

    def handle(engine: GroupEngine, event: Event, **circumstances: Any) -> Step:
        nonlocal failures
        if isinstance(event, TimePassed):
            failures += 1
            raise InvariantError("time itself")
        return real(engine, event, **circumstances)

    async with hosted_groups() as groups:
        joined = await groups.native("n")
        monkeypatch.setattr(GroupEngine, "handle", handle)
        with capture_logs():
            await trio.sleep(200)
        assert failures == 4
        assert (await groups.native("n", joined.member_epoch)).error is ErrorCode.NONE


async def test_a_failed_load_is_retried(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delay doubles each time. The group's requests are refused, and other groups notice
    nothing."""
    tried_s: list[float] = []
    real = GroupEngine.load

    def load(engine: GroupEngine, records: Iterable[DurableRecord], *, now_ms: int) -> None:
        if engine.state.group_id == GROUP:
            tried_s.append(trio.current_time())
            if len(tried_s) <= 6:
                raise KeyError("a line\nand another")
        real(engine, records, now_ms=now_ms)

    monkeypatch.setattr(GroupEngine, "load", load)
    async with hosted_groups() as groups:
        with capture_logs() as lines:
            while (await groups.native("n")).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                assert (await groups.native("n", group="another")).error is ErrorCode.NONE
                await trio.sleep(0.5)
        (failure,) = [line for line in lines if line["event"] == "group_load_failed"]
        assert failure["group_id"] == GROUP
        assert "\n" not in failure["reason"]
        assert "exc_info" not in failure
    pauses_s = [round(after - before) for before, after in pairwise(tried_s)]
    assert pauses_s[:6] == [1, 2, 4, 8, 8, 8]


async def test_a_request_is_refused_unread_while_the_group_is_not_loaded(
    autojump_clock: MockClock,
) -> None:
    """Even a bug in reading it does no harm."""

    def broken(token: int, topics: Topics) -> Request:
        raise ZeroDivisionError

    async with hosted_groups() as groups:
        groups.log.is_unreadable = True
        with capture_logs():
            await groups.native("n")
            with pytest.raises(GroupRefused):
                await groups.table.drivers.ask(GROUP, broken)
            refused = await groups.native("n")
        assert refused.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_request_that_cannot_be_built_fails_alone(autojump_clock: MockClock) -> None:
    """No refusal can be built for it either, so only its client gets the error of an internal
    bug."""

    def broken(token: int, topics: Topics) -> Request:
        raise ZeroDivisionError

    async with hosted_groups() as groups:
        joined = await groups.native("n")
        with capture_logs(), pytest.raises(GroupFailed):
            await groups.table.drivers.ask(GROUP, broken)
        assert (await groups.native("n", joined.member_epoch)).error is ErrorCode.NONE


async def test_a_failing_listener_ends_nothing(autojump_clock: MockClock) -> None:
    """The records are already in the log, and the group is reloaded with them."""
    async with hosted_groups() as groups:
        groups.events = _Hostile()
        groups.journal.listen(lambda envelope: groups.events.append(envelope.fields))
        with capture_logs():
            reply = await groups.native("n")
        assert reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await wait_all_tasks_blocked()
        view = groups.view()
        assert view is not None
        assert [member.member_id for member in view.members] == ["n"]


class _Hostile(list):  # type: ignore[type-arg]
    def append(self, item: object) -> None:
        if type(item) not in (HostingStarted, GroupLoaded, HostingEnded):
            raise RuntimeError("no more events, please")


async def test_a_bug_after_a_pause_loses_no_request(
    mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group learns of the pause before it gets the request."""
    real = HostedGroup.handle

    def handle(group: HostedGroup, event: Input, now_ms: int) -> Sequence[Effect]:
        if isinstance(event, Paused):
            monkeypatch.undo()
            raise InvariantError("time itself")
        return real(group, event, now_ms)

    async with hosted_groups() as groups:
        joined = await groups.native("n")
        monkeypatch.setattr(HostedGroup, "handle", handle)
        mock_clock.jump(60)
        mock_clock.autojump_threshold = 0
        with trio.fail_after(60), capture_logs():
            assert not (await groups.native("n", joined.member_epoch)).error


def claim() -> Call:
    """A call that leads to a write."""
    return Call(
        api=GroupApi.ADMIN, make=lambda token, _: ClaimReceived(token=token), is_placed=True
    )


async def test_a_bug_in_a_group_whose_task_has_just_been_woken_does_not_end_it(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task loads the group again, though its effects were cancelled before it ran."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        await wait_all_tasks_blocked()
        driver = groups.driver()
        assert driver.begin(claim()) is None  # a write wakes the task
        with monkeypatch.context() as bug, capture_logs():
            bug.setattr(HostedGroup, "handle", None)
            driver.feed(Leave())
        with trio.fail_after(60):
            assert not (await groups.native("n", joined.member_epoch)).error


async def test_no_result_of_an_earlier_effect_follows_a_bug(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The effect has ended, and its task has not run since."""
    log = ScriptedLog()
    async with hosted_groups(log=log) as groups:
        await groups.native("n")
        log.gate = trio.Event()
        driver = groups.driver()
        assert driver.begin(claim()) is None
        await log.writing.wait()
        log.gate.set()
        with capture_logs() as lines:
            with monkeypatch.context() as bug:
                bug.setattr(HostedGroup, "handle", None)
                driver.feed(Leave())
            await trio.sleep(10)
        assert [line["event"] for line in lines].count("group_failed") == 1
