"""One group's task: in which order things happen, and what it survives."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import pairwise
from typing import NoReturn, cast

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.config import GroupConfig
from coordinator.engine import GroupEngine, Step
from coordinator.errors import ErrorCode, InvariantError
from coordinator.events import (
    ConsumerHeartbeatReceived,
    Event,
    HeartbeatReceived,
    OffsetCommitEnded,
    RegexesResolved,
    Request,
    SyncGroupReceived,
    TimePassed,
)
from coordinator.records import DurableRecord
from coordinator.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    OffsetVerdict,
    Reply,
    SyncGroupReply,
)
from coordinator.topics import Topics
from gateway.cluster.errors import UpstreamError
from gateway.cluster.topic_names import TopicNames
from gateway.cluster.topics import Topic
from gateway.groups.group_task import LOAD_RETRY_MAX_S, LOAD_RETRY_S, GroupFailed
from gateway.groups.inbox import INBOX_MAX, Ask
from gateway.groups.regex_resolver import RegexResolver
from gateway.state_log.log import StateLogUnsure
from gateway.state_log.memory import MemoryLog
from tests.support.group_script import read_assignment
from tests.support.hosted_groups import GROUP, HostedGroups, hosted_groups

QUIET_S = 2
"""Longer than an empty group takes to leave memory."""

Break = Callable[[type[Event], BaseException], None]


@pytest.fixture
def break_engine(monkeypatch: pytest.MonkeyPatch) -> Break:
    """Lets the engine fail, once, at the next event of a kind: a bug that we do not have yet."""

    def plant(kind: type[Event], bug: BaseException) -> None:
        real = GroupEngine.handle
        planted = [bug]

        def handle(engine: GroupEngine, event: Event, *, now_ms: int, topics: Topics) -> Step:
            if isinstance(event, kind) and planted:
                raise planted.pop()
            return real(engine, event, now_ms=now_ms, topics=topics)

        monkeypatch.setattr(GroupEngine, "handle", handle)

    return plant


async def joined_together(groups: HostedGroups, *member_ids: str) -> dict[str, JoinGroupReply]:
    """The answers to JoinGroups that wait for each other."""
    answers: dict[str, JoinGroupReply] = {}

    async def join(member_id: str) -> None:
        answers[member_id] = await groups.join(member_id)

    async with trio.open_nursery() as nursery:
        for member_id in member_ids:
            nursery.start_soon(join, member_id)
    return answers


class Pending:
    """A request under way, in a task of its own that can be cancelled."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.reply: object = None
        self.failure: BaseException | None = None
        self.done = trio.Event()

    @classmethod
    async def start(cls, groups: HostedGroups, ask: Callable[[], object]) -> "Pending":
        """Send it, and return once it waits."""
        pending = cls()

        async def run() -> None:
            with pending.scope:
                try:
                    pending.reply = await ask()  # type: ignore[misc]
                except Exception as failure:  # noqa: BLE001, RUF100  # handed to the test
                    pending.failure = failure
            pending.done.set()

        groups.nursery.start_soon(run)
        await wait_all_tasks_blocked()
        return pending


# -- answers -------------------------------------------------------------------------------------


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


# -- batches -------------------------------------------------------------------------------------


async def joining_behind_a_slow_write(groups: HostedGroups, *member_ids: str) -> list[Pending]:
    """Native members that join while the log is busy with an earlier one; it has come to its end
    when the gate opens."""
    groups.log.gate = trio.Event()
    slow = await Pending.start(groups, lambda: groups.native("first"))
    joining = [await Pending.start(groups, partial(groups.native, id_)) for id_ in member_ids]
    assert not slow.done.is_set()
    return joining


async def test_who_waits_for_the_log_waits_once(autojump_clock: MockClock) -> None:
    """A thousand members that join one group would otherwise wait for a thousand writes."""
    async with hosted_groups() as groups:
        joining = await joining_behind_a_slow_write(groups, *map(str, range(30)))
        assert groups.log.gate is not None
        groups.log.gate.set()
        for pending in joining:
            await pending.done.wait()
        assert len(groups.log.batches) == 2
        replies = [cast(ConsumerHeartbeatReply, pending.reply) for pending in joining]
        assert {reply.error for reply in replies} == {ErrorCode.NONE}


async def test_a_batch_that_cannot_be_written_has_not_happened(autojump_clock: MockClock) -> None:
    """None of its requests, and each client is told so."""
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


async def test_a_batch_in_doubt_is_looked_up(autojump_clock: MockClock) -> None:
    """The log may have it: the group is what the log says, and clients are told to try again."""
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


async def test_a_bug_in_a_batch_harms_nobody_before_it(
    autojump_clock: MockClock, break_engine: Break
) -> None:
    """What was decided already is made real; then the group is loaded again."""
    async with hosted_groups() as groups:
        joining = await joining_behind_a_slow_write(groups, "a")
        beat = await Pending.start(groups, lambda: groups.beat("first", 1))
        later = await Pending.start(groups, lambda: groups.native("c"))
        break_engine(HeartbeatReceived, InvariantError("a bug"))
        assert groups.log.gate is not None
        groups.log.gate.set()
        for pending in (*joining, beat, later):
            await pending.done.wait()
        replies = [cast(Reply, pending.reply) for pending in (*joining, beat, later)]
        assert [reply.error for reply in replies] == [
            ErrorCode.NONE,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NONE,
        ]


# -- a log that fails ----------------------------------------------------------------------------


async def test_a_failing_log_leaves_the_group_as_it_was(autojump_clock: MockClock) -> None:
    """Nothing has happened: no member, no event; the client is told to try again."""
    async with hosted_groups() as groups:
        await groups.native("n")
        before, told = groups.view(), list(groups.events)
        groups.log.is_failing = True
        with capture_logs() as lines:
            reply = await groups.native("other")
        assert reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (groups.view(), groups.events) == (before, told)
        assert "state_log_failed" in [line["event"] for line in lines]
        groups.log.is_failing = False
        assert (await groups.native("other")).error is ErrorCode.NONE


async def test_a_parked_request_outlives_a_failure_of_the_log(autojump_clock: MockClock) -> None:
    """It waits for the group, and the group has not changed."""
    config = GroupConfig(generic_initial_rebalance_delay_ms=0)
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


async def test_time_passes_in_spite_of_a_failing_log(autojump_clock: MockClock) -> None:
    """A session that ran out is looked at again, at a bearable pace, until it can be written."""
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
        assert groups.told("member_fenced") == [{"member_id": "n", "cause": "session_expired"}]


async def test_a_member_that_spoke_in_time_is_not_timed_out(autojump_clock: MockClock) -> None:
    """Its heartbeat waited for us, behind a slow write: that is not the member's silence."""
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
        assert groups.told("member_fenced") == []


async def test_a_commit_ends_in_spite_of_a_failing_log(autojump_clock: MockClock) -> None:
    """The end of a commit may complete a rebalance, which must be written: it is tried again."""
    async with hosted_groups() as groups:
        first = await groups.native("a")
        token, _ = await groups.commit("a", first.member_epoch, {"foo": [0]})
        groups.log.is_failing = True
        groups.registry.end_commit(GROUP, OffsetCommitEnded(commit=token))
        await wait_all_tasks_blocked()
        groups.log.is_failing = False
        await trio.sleep(2)
        left = await groups.native("a", -1)
        assert left.error is ErrorCode.NONE
        await trio.sleep(QUIET_S)
        assert groups.view() is None, "a commit in flight would keep the group in memory"


async def test_who_asks_a_group_that_cannot_be_read_is_told_to_try_again(
    autojump_clock: MockClock,
) -> None:
    """At once, and as said by a coordinator that still loads; a SyncGroup as the clients bear it.
    The log says it once, and the group is loaded as soon as the log is back."""
    async with hosted_groups() as groups:
        groups.log.is_unreadable = True
        with capture_logs() as lines:
            for _ in range(20):
                began = trio.current_time()
                refused = await groups.native("n")
                assert refused.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                assert (await groups.sync("n", 1)).error is ErrorCode.REBALANCE_IN_PROGRESS
                assert trio.current_time() == began
                await trio.sleep(1)
            groups.log.is_unreadable = False
            await trio.sleep(LOAD_RETRY_MAX_S)
            assert (await groups.native("n")).error is ErrorCode.NONE
        (told,) = [line for line in lines if line["event"] == "group_load_failed"]
        assert (told["log_level"], told["next_retry_s"]) == ("error", LOAD_RETRY_S)
        assert len(groups.told("member_joined")) == 1


# -- bugs of ours --------------------------------------------------------------------------------


@pytest.mark.parametrize("bug", [InvariantError("two owners"), KeyError("n"), ZeroDivisionError()])
async def test_a_broken_rule_reloads_the_group_and_answers_everybody(
    autojump_clock: MockClock, break_engine: Break, bug: Exception
) -> None:
    """The group starts again from its records; who waits is told to try again; others go on."""
    config = GroupConfig(generic_initial_rebalance_delay_ms=0)
    async with hosted_groups(config=config) as groups:
        elsewhere = await groups.native("elsewhere", group="another")
        await groups.lone_classic_member()
        second = (await groups.join()).member_id
        parked = await Pending.start(groups, lambda: groups.join(second))
        break_engine(ConsumerHeartbeatReceived, bug)
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
        assert failure["exc_info"] is True
        view = groups.view()
        assert view is not None
        assert [member.client_id for member in view.members] == ["client"]
        assert (await groups.native("n")).error is ErrorCode.NONE
        beaten = await groups.native("elsewhere", elsewhere.member_epoch, group="another")
        assert beaten.error is ErrorCode.NONE


async def test_a_bug_in_a_timer_does_not_spin(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deadline that cannot be handled comes again with the sessions that the reload restarts."""
    real = GroupEngine.handle
    failures = 0

    def handle(engine: GroupEngine, event: Event, *, now_ms: int, topics: Topics) -> Step:
        nonlocal failures
        if isinstance(event, TimePassed):
            failures += 1
            raise InvariantError("time itself")
        return real(engine, event, now_ms=now_ms, topics=topics)

    async with hosted_groups() as groups:
        joined = await groups.native("n")
        monkeypatch.setattr(GroupEngine, "handle", handle)
        with capture_logs():
            await trio.sleep(200)
        assert failures == 4
        assert (await groups.native("n", joined.member_epoch)).error is ErrorCode.NONE


async def test_a_commit_on_its_way_outlives_a_reload(
    autojump_clock: MockClock, break_engine: Break
) -> None:
    """It is in no log, but the cluster may still store it: its partitions stay with its member."""
    async with hosted_groups() as groups:
        first = await groups.native("a")
        token, verdict = await groups.commit("a", first.member_epoch, {"foo": [0, 1, 2]})
        assert verdict == OffsetVerdict()
        break_engine(SyncGroupReceived, InvariantError("any"))
        with capture_logs():
            await groups.sync("nobody", 1)
        left = await groups.native("a", -1)
        assert left.error is ErrorCode.NONE
        second = await groups.native("b")
        await trio.sleep(QUIET_S)
        waiting = await groups.native("b", second.member_epoch, owned={})
        assert not waiting.assignment
        groups.registry.end_commit(GROUP, OffsetCommitEnded(commit=token))
        given = await groups.native("b", waiting.member_epoch, owned={})
        assert given.assignment is not None
        assert len(given.assignment) == 3


async def test_a_lost_commit_outlives_a_reload(
    autojump_clock: MockClock, break_engine: Break
) -> None:
    """For as long as the cluster may be about to store it, nobody fetches that offset."""
    async with hosted_groups() as groups:
        first = await groups.native("a")
        token, _ = await groups.commit("a", first.member_epoch, {"foo": [0]})
        groups.registry.end_commit(GROUP, OffsetCommitEnded(commit=token, answer_lost=True))
        await wait_all_tasks_blocked()
        break_engine(SyncGroupReceived, InvariantError("any"))
        with capture_logs():
            await groups.sync("nobody", 1)
        refused = await groups.fetch({"foo": [0]})
        assert refused.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await trio.sleep((groups.config.lost_commit_hold_ms or 0) / 1000)
        await wait_all_tasks_blocked()  # who asks at the very moment is served before it
        assert (await groups.fetch({"foo": [0]})).error is ErrorCode.NONE


async def test_the_end_of_a_commit_is_not_forgotten_over_a_bug(
    autojump_clock: MockClock, break_engine: Break
) -> None:
    """It has happened in the cluster: it is handled again, a little later."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        token, _ = await groups.commit("n", joined.member_epoch, {"foo": [0]})
        break_engine(OffsetCommitEnded, InvariantError("any"))
        with capture_logs():
            groups.registry.end_commit(GROUP, OffsetCommitEnded(commit=token))
            await trio.sleep(QUIET_S)
        await groups.native("n", -1)
        await trio.sleep(QUIET_S)
        assert groups.view() is None


async def test_a_group_that_cannot_be_loaded_is_tried_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as long after each time; its requests are refused, the others do not notice."""
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


async def test_a_request_without_shape_fails_alone_while_the_group_is_not_loaded(
    autojump_clock: MockClock,
) -> None:
    """As it does later; the others are refused like anybody."""

    def broken(token: int, topics: Topics) -> Request:
        raise ZeroDivisionError

    async with hosted_groups() as groups:
        groups.log.is_unreadable = True
        with capture_logs():
            await groups.native("n")
            with pytest.raises(GroupFailed):
                await groups.ask(broken)
            refused = await groups.native("n")
        assert refused.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_request_that_cannot_be_made_fails_alone(autojump_clock: MockClock) -> None:
    """It has no shape to be refused in: whoever asked is told that it is a bug, nobody else."""

    def broken(token: int, topics: Topics) -> Request:
        raise ZeroDivisionError

    async with hosted_groups() as groups:
        joined = await groups.native("n")
        with capture_logs(), pytest.raises(GroupFailed):
            await groups.ask(broken)
        assert (await groups.native("n", joined.member_epoch)).error is ErrorCode.NONE


async def test_a_listener_that_fails_ends_nothing(autojump_clock: MockClock) -> None:
    """The records are in the log by then: the group is loaded with them."""
    async with hosted_groups() as groups:
        groups.events = _Hostile()
        groups.registry._journal._listener = groups.events.append  # noqa: SLF001, RUF100
        with capture_logs():
            reply = await groups.native("n")
        assert reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        view = groups.view()
        assert view is not None
        assert [member.member_id for member in view.members] == ["n"]


class _Hostile(list):  # type: ignore[type-arg]
    def append(self, item: object) -> None:
        raise RuntimeError("no more events, please")


# -- ends and beginnings -------------------------------------------------------------------------


async def test_the_task_ends_when_the_group_is_quiet(autojump_clock: MockClock) -> None:
    """No member, nothing parked, no deadline: then its state is in the log alone."""
    async with hosted_groups() as groups:
        await groups.native("n")
        assert groups.view() is not None
        await groups.native("n", -1)
        await trio.sleep(QUIET_S)
        assert groups.registry.all_running() == ()


async def test_no_request_is_lost_between_two_tasks(autojump_clock: MockClock) -> None:
    """One task ends while the next request is on its way to it: it is answered all the same."""
    async with hosted_groups() as groups:
        verdicts: list[OffsetVerdict] = []

        async def commit_for_ever() -> None:
            for _ in range(50):
                _token, verdict = await groups.commit("", -1, {"foo": [0]})
                verdicts.append(verdict)

        with trio.fail_after(1):
            async with trio.open_nursery() as nursery:
                for _ in range(2 * INBOX_MAX):
                    nursery.start_soon(commit_for_ever)
        assert verdicts == [OffsetVerdict()] * (2 * INBOX_MAX * 50)
        await wait_all_tasks_blocked()
        assert groups.registry.all_running() == ()


async def test_a_task_whose_only_request_never_came_ends(autojump_clock: MockClock) -> None:
    """The client was gone before its request was in the inbox."""
    async with hosted_groups() as groups:
        with trio.CancelScope() as scope:
            scope.cancel()
            await groups.native("n")
        await wait_all_tasks_blocked()
        assert groups.registry.all_running() == ()


async def test_a_group_comes_back_from_its_log(autojump_clock: MockClock) -> None:
    """The next task goes on where the last one ended."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        await groups.native("n", -1)
        await trio.sleep(QUIET_S)
        assert groups.registry.all_running() == ()
        again = await groups.native("n")
        assert again.member_epoch > joined.member_epoch


async def test_the_task_takes_no_name_from_the_connection_that_started_it(
    autojump_clock: MockClock,
) -> None:
    """What a group does later has nothing to do with its first client's connection."""
    import structlog  # noqa: PLC0415  # only here

    async with hosted_groups() as groups:
        with structlog.contextvars.bound_contextvars(connection_id="c1"):
            await groups.native("n")
        merge = structlog.contextvars.merge_contextvars
        with capture_logs(processors=[merge]) as lines:
            await groups.native("other")
        assert lines
        assert all("connection_id" not in line for line in lines)


# -- topics --------------------------------------------------------------------------------------


async def test_the_cluster_is_asked_about_new_names_only(autojump_clock: MockClock) -> None:
    """Heartbeats, commits and rejoins name what is known."""
    async with hosted_groups() as groups:
        groups.cluster.partition_counts = {"foo": 3, "bar": 1}
        joined = await groups.lone_classic_member()
        await groups.beat(joined.member_id, joined.generation)
        token, _ = await groups.commit(joined.member_id, joined.generation, {"foo": [0]})
        groups.registry.end_commit(GROUP, OffsetCommitEnded(commit=token))
        assert groups.cluster.topic_questions == [frozenset({"foo"})]
        token, _ = await groups.commit(joined.member_id, joined.generation, {"bar": [0]})
        groups.registry.end_commit(GROUP, OffsetCommitEnded(commit=token))
        await groups.join(joined.member_id, topics=["foo", "bar", "missing"])
        assert groups.cluster.topic_questions[1:] == [frozenset({"bar"}), frozenset({"missing"})]


async def test_topics_of_refused_requests_are_forgotten(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever names many that do not exist takes no room from the group's members."""
    monkeypatch.setattr("gateway.groups.topics_image.NAMES_MAX", 3)
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        made_up = [f"made-up-{n}" for n in range(4)]
        refused = await groups.join("m", topics=made_up, session_timeout_ms=1)
        assert refused.error is ErrorCode.INVALID_SESSION_TIMEOUT
        asked_for: list[set[str]] = []
        topics_for = groups.cluster.topics_for

        async def noting(names: Iterable[str]) -> Mapping[str, Topic]:
            asked_for.append(set(names))
            return await topics_for(names)

        monkeypatch.setattr(groups.cluster, "topics_for", noting)
        assert (await groups.native("n", joined.member_epoch)).error is ErrorCode.NONE
        assert asked_for == [{"foo"}]


async def test_unknown_topics_refuse_the_request_alone(autojump_clock: MockClock) -> None:
    """The cluster does not answer: whoever brings a new name tries again, the others go on."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        groups.cluster.failure = UpstreamError("nobody listens")
        with capture_logs() as lines:
            refused = await groups.join("m", topics=["new"], version=3)
        assert refused.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert lines[-1]["reason"] == "topics unknown: nobody listens"
        _, verdict = await groups.commit("n", joined.member_epoch, {"new": [0]})
        assert verdict.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await groups.native("n", joined.member_epoch)).error is ErrorCode.NONE
        groups.cluster.failure = None
        assert (await groups.commit("n", joined.member_epoch, {"new": [0]}))[
            1
        ].error is ErrorCode.NONE


async def test_a_change_of_topics_reaches_the_members(autojump_clock: MockClock) -> None:
    """A new partition bumps the group epoch at the next heartbeat."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        groups.cluster.partition_counts["foo"] = 4
        groups.cluster.change()
        await trio.sleep(2)
        reply = await groups.native("n", joined.member_epoch)
        assert groups.told("group_epoch_bumped")[-1]["cause"] == "topics_changed"
        assert reply.assignment is not None
        assert len(reply.assignment) == 4


# -- regular expressions -------------------------------------------------------------------------


async def test_a_regex_is_resolved_beside_the_group() -> None:
    """The heartbeat that brings it is answered at once, a later one has the partitions."""
    async with hosted_groups() as groups:
        joined = await groups.native("n", regex="f.*")
        assert (joined.member_epoch, joined.assignment) == (1, frozenset())
        assert (await groups.heard("regex_resolved"))["added"] == ["foo"]
        reply = await groups.native("n", 1)
        assert reply.member_epoch == 2
        assert reply.assignment is not None
        assert len(reply.assignment) == 3


async def test_a_slow_resolution_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the group nor its end."""
    async with hosted_groups() as groups:
        monkeypatch.setattr(groups.cluster, "ask_names", trio.sleep_forever)
        groups.cluster.names = TopicNames(groups.cluster.ask_names, interval_s=5)
        await groups.native("n", regex="f.*")
        assert (await groups.native("other")).member_epoch == 2
        await groups.native("n", -1)
        await groups.native("other", -1)
        with trio.fail_after(5):
            while groups.registry.all_running():  # noqa: ASYNC110  (no event tells of it)
                await trio.sleep(0.01)


async def test_a_resolution_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster does not answer, or we ourselves have a bug: the group goes on."""
    async with hosted_groups() as groups:
        monkeypatch.setattr(
            groups.cluster, "names", TopicNames(groups.cluster.ask_names, interval_s=0)
        )
        groups.cluster.failure = UpstreamError("nobody listens")
        with capture_logs() as lines:
            await groups.native("n", regex="f.*")
            await trio.sleep(0.1)
            groups.cluster.failure = None
            monkeypatch.setattr(RegexResolver, "resolve", None)
            await groups.native("n", 1)
            await trio.sleep(0.1)
            monkeypatch.undo()
            await groups.native("n", 1)
            await groups.heard("regex_resolved")
        assert [line["event"] for line in lines].count("regexes_unresolved") == 2


async def test_matched_topics_that_cannot_be_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than the gateway follows, say: nothing is resolved, and the group goes on."""
    async with hosted_groups() as groups:

        async def too_many(names: Iterable[str]) -> NoReturn:
            raise UpstreamError("more than 10000 topics are asked for")

        monkeypatch.setattr(groups.cluster, "topics_for", too_many)
        with capture_logs() as lines:
            await groups.native("n", regex="f.*")
            await trio.sleep(0.1)
        (line,) = [line for line in lines if line["event"] == "regexes_unresolved"]
        assert line["reason"] == "more than 10000 topics are asked for"
        assert (await groups.native("n", 1)).member_epoch == 1


async def test_a_resolution_outlives_a_failure_of_the_log() -> None:
    """It has happened all the same."""
    async with hosted_groups() as groups:
        groups.log.gate = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(groups.native, "n", regex="f.*"))
            await groups.log.writing.wait()
            groups.log.gate.set()
        groups.log.is_failing = True
        await trio.sleep(0.1)
        assert groups.told("regex_resolved") == []
        groups.log.is_failing = False
        await groups.heard("regex_resolved")


async def test_a_reload_forgets_what_was_being_resolved(break_engine: Break) -> None:
    """The group in the log waits for nothing; the next heartbeat asks again."""
    async with hosted_groups() as groups:
        break_engine(RegexesResolved, InvariantError("any"))
        with capture_logs() as lines:
            await groups.native("n", regex="f.*")
            await trio.sleep(0.1)
        assert "group_failed" in [line["event"] for line in lines]
        assert groups.told("regex_resolved") == []
        await groups.native("n", 1)
        await groups.heard("regex_resolved")


async def test_the_names_are_followed_while_a_regex_is_in_use() -> None:
    """A group without one wants no look at all topics."""
    async with hosted_groups() as groups:
        await groups.native("m")
        await trio.sleep(0.05)
        assert groups.cluster.names.version == 0
        await groups.native("n", regex="f.*")
        await groups.heard("regex_resolved")
        assert groups.cluster.names.version > 0


# -- commits -------------------------------------------------------------------------------------


async def test_a_commit_in_flight_keeps_the_group_in_memory(autojump_clock: MockClock) -> None:
    """Its partitions count as held until the cluster has answered."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        token, _ = await groups.commit("n", joined.member_epoch, {"foo": [0]})
        await groups.native("n", -1)
        await trio.sleep(QUIET_S)
        assert groups.view() is not None
        groups.registry.end_commit(GROUP, OffsetCommitEnded(commit=token))
        await wait_all_tasks_blocked()
        assert groups.view() is None


async def test_a_commit_ends_while_the_group_is_busy(autojump_clock: MockClock) -> None:
    """Telling never blocks: not behind a slow log, not behind a full inbox."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        token, _ = await groups.commit("n", joined.member_epoch, {"foo": [0]})
        groups.log.gate = trio.Event()
        pending = [
            await Pending.start(groups, lambda: groups.native("n", joined.member_epoch))
            for _ in range(INBOX_MAX + 10)
        ]
        groups.registry.end_commit(GROUP, OffsetCommitEnded(commit=token))
        groups.log.gate.set()
        for each in pending:
            await each.done.wait()
        await groups.native("n", -1)
        await trio.sleep(QUIET_S)
        assert groups.view() is None


async def test_the_end_of_a_commit_of_an_ended_group_is_no_news(
    autojump_clock: MockClock,
) -> None:
    """A commit without a member is not held back for, and its group may be gone."""
    async with hosted_groups() as groups:
        token, _ = await groups.commit("", -1, {"foo": [0]})
        await wait_all_tasks_blocked()
        groups.registry.end_commit(GROUP, OffsetCommitEnded(commit=token))
        await wait_all_tasks_blocked()
        assert groups.registry.all_running() == ()


async def test_a_commit_whose_client_left_before_the_verdict_is_ended(
    autojump_clock: MockClock,
) -> None:
    """Nobody will ask the cluster to store it, so nobody else would tell how it ended."""
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


async def test_a_commit_whose_client_leaves_at_the_verdict_is_ended(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict is there, and the one who asked is cancelled before it can see it."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        with monkeypatch.context() as patched, trio.CancelScope() as asking:
            answer = Ask.answer

            def cancel_and_answer(ask: Ask, reply: Reply | None) -> None:
                asking.cancel()
                answer(ask, reply)

            patched.setattr(Ask, "answer", cancel_and_answer)
            await groups.commit("n", joined.member_epoch, {"foo": [0]})
        assert asking.cancelled_caught
        await groups.native("n", -1)
        await trio.sleep(QUIET_S)
        assert groups.view() is None


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
