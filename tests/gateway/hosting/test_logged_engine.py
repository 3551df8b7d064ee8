"""One group's engine and its log: order, batches, and failures of the log or the engine."""

from collections.abc import Callable
from typing import Any, Never

import pytest

from coordinator.engine import GroupEngine
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import InvariantError, LongComputation
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    Event,
    GroupLost,
    HeartbeatReceived,
    OffsetCommitEnded,
    SyncGroupReceived,
)
from coordinator.interface.records import MemberMetadata
from coordinator.interface.replies import ConsumerHeartbeatReply, JoinGroupReply
from gateway.hosting.answers import RefusalReason
from gateway.hosting.calls import Call, Refused, Unanswerable
from gateway.hosting.effects import Assign, Compute, Forget, Load, Resolve, Write
from gateway.hosting.inputs import Damage, EngineEvent, Failed, Paused
from gateway.hosting.logged_engine import (
    BEFORE_A_DEADLINE_MAX,
    LOAD_RETRY_MS,
    LOAD_RETRY_MS_MAX,
    POSTPONED_MS,
    STALLED_AFTER_MS,
)
from gateway.hosting.states import LogPhase, Stage
from kafka_codecs.error_codes import ErrorCode
from tests.gateway.hosting.scene_commits import outcomes
from tests.support.broken_engine import break_engine
from tests.support.hosted_scene import HostedScene, cause_of, error_of, hosting_rules

QUIET = GroupConfig(lost_commit_hold_ms=None, classic_initial_rebalance_delay_ms=0)


def behind_a_slow_write(scene: HostedScene, *asks: Callable[[], Call]) -> list[Call]:
    """Requests that arrive while the log writes an earlier batch."""
    scene.hold(Write)
    scene.native("first")
    assert scene.waits(Write) == 1
    return [ask() for ask in asks]


@pytest.fixture
def scene() -> HostedScene:
    """A group with one native member."""
    scene = HostedScene()
    scene.native_member("first")
    return scene


@pytest.fixture
def empty() -> HostedScene:
    return HostedScene()


def in_memory(scene: HostedScene) -> set[str]:
    """The ids of the group's members."""
    group = scene.group.engine.core.state.group
    return set(group.members) if group is not None else set()


# -- batches -------------------------------------------------------------------------------------


def test_requests_wait_for_one_write(empty: HostedScene) -> None:
    """Without that, a thousand joining members would wait for a thousand writes."""
    joining = behind_a_slow_write(
        empty, *(lambda name=str(n): empty.native(name) for n in range(30))
    )
    assert not any(call.answer for call in joining)
    empty.release(Write)
    assert empty.count(Write) == 2
    assert {error_of(call) for call in joining} == {ErrorCode.NONE}


def test_nothing_is_applied_or_answered_before_it_is_written(scene: HostedScene) -> None:
    """After a crash in between, no client must have had an answer."""
    scene.hold(Write)
    call, events = scene.native("n"), list(scene.events)
    assert (call.answer, scene.events, in_memory(scene)) == (None, events, {"first"})
    scene.release(Write)
    assert error_of(call) is ErrorCode.NONE
    assert in_memory(scene) == {"first", "n"}


def test_a_batch_that_cannot_be_written_has_no_effect(scene: HostedScene) -> None:
    """Each of its requests gets an error. The group continues."""
    scene.hold(Write)
    slow = scene.native("slow")
    joining = [scene.native(name) for name in "ab"]
    events = len(scene.events)
    write = scene.take(Write)
    scene.damage = Damage.NONE
    scene.feed(Failed(write, Damage.NONE))
    scene.release(Write)
    assert {cause_of(call) for call in (slow, *joining)} == {RefusalReason.LOG_FAILED}
    assert in_memory(scene) == {"first"}
    assert len(scene.events) == events
    scene.damage = None
    assert {error_of(scene.native(name)) for name in "ab"} == {ErrorCode.NONE}


def test_an_oversized_record_fails_only_its_request(empty: HostedScene) -> None:
    """Its client retries, and others wait for the log with it. Their batch may be too large only
    because of it."""
    joining = behind_a_slow_write(
        empty, *(lambda name=name: empty.native(name) for name in ("a", "large", "b"))
    )
    empty.is_too_large = lambda record: (
        isinstance(record, MemberMetadata) and record.member_id == "large"
    )
    empty.release(Write)
    assert error_of(joining[0]) is error_of(joining[2]) is ErrorCode.NONE
    assert cause_of(joining[1]) is RefusalReason.LOG_FAILED
    assert in_memory(empty) == {"first", "a", "b"}
    assert [fields["member_id"] for fields in empty.events_named("member_joined")] == [
        "first",
        "a",
        "b",
    ]


def test_requests_share_a_write_again_after_an_oversized_record(empty: HostedScene) -> None:
    """Only the requests of the refused batch are written one by one."""
    behind_a_slow_write(empty, *(lambda name=name: empty.native(name) for name in ("a", "large")))
    empty.is_too_large = lambda record: (
        isinstance(record, MemberMetadata) and record.member_id == "large"
    )
    empty.release(Write)
    empty.hold(Write)
    for name in ("b", "c", "d"):
        empty.native(name)
    writes = empty.count(Write)
    empty.release(Write)
    assert in_memory(empty) == {"first", "a", "b", "c", "d"}
    assert empty.count(Write) == writes + 2


def test_an_uncertain_batch_reloads_the_group(scene: HostedScene) -> None:
    """The log may have the batch. The group is reloaded from it, and clients retry."""
    scene.hold(Write)
    call = scene.native("m")
    write = scene.take(Write)
    scene.records += write.batch.durable
    scene.feed(Failed(write, Damage.UNSURE))
    assert cause_of(call) is RefusalReason.LOG_FAILED
    assert in_memory(scene) == {"first", "m"}


def test_a_request_without_records_is_answered_without_the_log(scene: HostedScene) -> None:
    """A heartbeat must be fast."""
    writes = scene.count(Write)
    assert error_of(scene.native("first", 2)) is ErrorCode.NONE
    assert scene.count(Write) == writes


# -- a log that fails ----------------------------------------------------------------------------


def test_a_parked_request_survives_a_failure_of_the_log() -> None:
    """The group has not changed."""
    scene = HostedScene(config=QUIET)
    joined = scene.classic_member()
    second = scene.join().answer
    assert isinstance(second, JoinGroupReply)
    parked = scene.join(second.member_id)
    scene.damage = Damage.NONE
    assert cause_of(scene.native("n")) is RefusalReason.LOG_FAILED
    scene.damage = None
    assert parked.stage is Stage.DECIDING
    scene.join(joined.member_id)
    assert isinstance(parked.answer, JoinGroupReply)
    assert parked.answer.generation == 2


def test_time_passes_despite_a_failing_log(scene: HostedScene) -> None:
    """An expired session is retried at a moderate pace until its records are written."""
    scene.damage = Damage.NONE
    before = scene.count(Write)
    scene.wait(scene.rules.config.consumer_session_timeout_ms + 10 * POSTPONED_MS)
    assert 5 <= scene.count(Write) - before <= 15
    assert in_memory(scene) == {"first"}
    scene.damage = None
    scene.wait(2 * POSTPONED_MS)
    assert scene.events_named("member_fenced") == [
        {"member_id": "first", "cause": "session_expired"}
    ]


def test_a_member_whose_heartbeat_waited_does_not_time_out() -> None:
    """The heartbeat waited behind a slow write, so the member was not silent."""
    scene = HostedScene(config=QUIET)
    joined = scene.classic_member()
    scene.hold(Write)
    scene.native("n")
    beat = scene.beat(joined.member_id, joined.generation)
    scene.wait(30_000)
    scene.release(Write)
    assert beat.answer is not None
    assert scene.events_named("member_fenced") == []


def test_requests_to_an_unreadable_group_are_refused_at_once(empty: HostedScene) -> None:
    """One line reports it, and the group is loaded once the log recovers."""
    empty.load_failure = "the disk is gone"
    for _ in range(20):
        assert cause_of(empty.native("n", 1)) is RefusalReason.LOADING
        assert cause_of(empty.native("n")) is RefusalReason.LOADING
        empty.wait(1_000)
    assert empty.count(Load) < 20_000 / LOAD_RETRY_MS_MAX + 5, "each pause is longer"
    empty.load_failure = None
    empty.wait(LOAD_RETRY_MS_MAX)
    assert error_of(empty.native("n")) is ErrorCode.NONE
    (line,) = (line for line in empty.lines if line.event == "group_load_failed")
    assert line.fields["next_retry_s"] == LOAD_RETRY_MS / 1000


def test_a_new_reason_for_a_failed_load_is_logged(empty: HostedScene) -> None:
    """The log gets one line, whatever the reason says."""
    for empty.load_failure in ("the disk\n  is gone", "the disk\n  is gone", "access denied"):
        empty.native("n", 1)
        empty.wait(LOAD_RETRY_MS_MAX)
    reasons = [line.fields["reason"] for line in empty.lines if line.event == "group_load_failed"]
    assert reasons == ["the disk is gone", "access denied"]


def test_requests_wait_while_the_group_is_loaded(empty: HostedScene) -> None:
    """The requests are decided in order once the group is loaded."""
    empty.hold(Load)
    calls = [empty.native("n", 1), empty.native("n", -1)]
    assert [call.answer for call in calls] == [None, None]
    empty.release(Load)
    assert [error_of(call) for call in calls] == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]


# -- the order -----------------------------------------------------------------------------------


def test_happenings_precede_requests(scene: HostedScene) -> None:
    """The end of a commit may free partitions for a request."""
    scene.hold(Write)
    order: list[str] = []
    decide = GroupEngine.handle

    def record_event(engine: GroupEngine, event: Event, **how: Any) -> Any:
        order.append(type(event).__name__)
        return decide(engine, event, **how)

    slow = scene.native("slow")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(GroupEngine, "handle", record_event)
        scene.native("first", 2)
        scene.feed(EngineEvent(OffsetCommitEnded(commit=77)))
        scene.release(Write)
    assert slow.answer
    assert order.index("OffsetCommitEnded") < order.index("ConsumerHeartbeatReceived")


def test_requests_precede_a_due_deadline_for_a_limited_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A member that spoke in time must not be fenced because the gateway is late, and time must
    pass in the end."""
    scene = HostedScene(config=QUIET)
    scene.native_member("first")
    joined = scene.native_member("n")
    scene.hold(Write)
    scene.native("slow")
    beats = [scene.native("n", joined.member_epoch) for _ in range(2 * BEFORE_A_DEADLINE_MAX)]
    scene.now_ms += scene.rules.config.consumer_session_timeout_ms + 1
    order: list[str] = []
    decide = GroupEngine.handle

    def record_event(engine: GroupEngine, event: Event, **how: Any) -> Any:
        order.append(type(event).__name__)
        return decide(engine, event, **how)

    monkeypatch.setattr(GroupEngine, "handle", record_event)
    scene.release(Write)
    assert 0 < order.index("TimePassed") <= BEFORE_A_DEADLINE_MAX + 1
    assert {error_of(beat) for beat in beats} == {ErrorCode.NONE}
    assert {fields["member_id"] for fields in scene.events_named("member_fenced")} == {
        "first",
        "slow",
    }


def test_a_postponed_happening_is_not_lost(
    scene: HostedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The happening comes first once it is due. Meanwhile requests are decided."""
    commit = scene.commit("first", 2)
    assert commit.answer
    break_engine(monkeypatch, OffsetCommitEnded, InvariantError("a bug"))
    scene.feed(EngineEvent(OffsetCommitEnded(commit=77)))
    assert scene.log_names()[-1] == "group_failed"
    assert error_of(scene.native("first", 2)) is ErrorCode.NONE
    assert scene.group.next_ms() is not None
    monkeypatch.undo()
    seen: list[Event] = []
    handle = GroupEngine.handle

    def record_event(engine: GroupEngine, event: Event, **how: Any) -> Any:
        seen.append(event)
        return handle(engine, event, **how)

    monkeypatch.setattr(GroupEngine, "handle", record_event)
    scene.wait(POSTPONED_MS - 1)
    assert OffsetCommitEnded(commit=77) not in seen
    scene.wait(1)
    assert OffsetCommitEnded(commit=77) in seen


def test_no_commit_is_accepted_while_the_end_of_another_is_postponed(
    scene: HostedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the answer to the earlier one was lost, the cluster may store it after the later one."""
    break_engine(monkeypatch, OffsetCommitEnded, InvariantError("a bug"))
    scene.feed(EngineEvent(OffsetCommitEnded(commit=77, answer_lost=True)))
    monkeypatch.undo()
    (early,) = outcomes(scene.commit("first", 2))
    assert early.refused == Refused(RefusalReason.LOG_FAILED, "the state log failed")
    assert error_of(scene.native("first", 2)) is ErrorCode.NONE
    scene.wait(POSTPONED_MS)
    (late,) = outcomes(scene.commit("first", 2))
    assert late.refused is None


@pytest.mark.parametrize("damage", [Damage.NONE, Damage.UNSURE])
def test_no_commit_is_accepted_while_the_loss_of_the_group_is_postponed(
    scene: HostedScene, damage: Damage
) -> None:
    """Such a commit would take the offsets back that another member has committed meanwhile."""
    scene.damage = damage
    scene.feed(EngineEvent(GroupLost()))
    scene.damage = None
    (early,) = outcomes(scene.commit("first", 2))
    assert early.refused == Refused(RefusalReason.LOG_FAILED, "the state log failed")
    scene.wait(POSTPONED_MS)
    (late,) = outcomes(scene.commit("first", 2))
    assert late.decision is not None
    assert late.decision.error is ErrorCode.UNKNOWN_MEMBER_ID


# -- bugs of the engine --------------------------------------------------------------------------


def test_a_bug_fails_its_request_and_reloads_the_group(
    scene: HostedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event may hold a client's data, so the line names only its type."""
    break_engine(monkeypatch, SyncGroupReceived, InvariantError("a bug"))
    loads = scene.count(Load)
    assert cause_of(scene.sync("nobody", 1)) is RefusalReason.RELOADING
    assert scene.count(Load) == loads + 1
    assert in_memory(scene) == {"first"}
    (line,) = (line for line in scene.lines if line.event == "group_failed")
    assert line.fields["event_type"] == "SyncGroupReceived"
    assert isinstance(line.error, InvariantError)


def test_a_bug_after_the_write_reloads_the_group(
    scene: HostedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has what the engine could not apply."""

    def broken(*_: object) -> Never:
        monkeypatch.undo()
        raise InvariantError("a bug")

    scene.hold(Write)
    call = scene.native("second")
    monkeypatch.setattr(GroupEngine, "apply", broken)
    loads = scene.count(Load)
    scene.release(Write)
    assert cause_of(call) is RefusalReason.RELOADING
    assert scene.count(Load) == loads + 1
    assert in_memory(scene) == {"first", "second"}


def test_a_request_that_cannot_be_made_into_an_event_fails(scene: HostedScene) -> None:
    """The gateway cannot build a refusal for it either."""

    def broken(*_: object) -> Any:
        raise ZeroDivisionError

    call = scene.beat("first", 1)
    bad = Call(api=call.api, make=broken, knows_topics=True, is_at_coordinator=True)
    assert isinstance(scene.ask(bad).answer, Unanswerable)
    assert error_of(scene.native("first", 2)) is ErrorCode.NONE


def test_a_bug_in_a_batch_spares_earlier_requests(
    empty: HostedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier decisions are applied, and then the group is reloaded."""
    calls = behind_a_slow_write(
        empty,
        lambda: empty.native("a"),
        lambda: empty.beat("first", 1),
        lambda: empty.native("c"),
    )
    break_engine(monkeypatch, HeartbeatReceived, InvariantError("a bug"))
    empty.release(Write)
    assert error_of(calls[0]) is ErrorCode.NONE
    assert cause_of(calls[1]) is RefusalReason.RELOADING
    assert error_of(calls[2]) is ErrorCode.NONE
    assert in_memory(empty) == {"first", "a", "c"}


def test_parked_requests_are_refused_when_the_group_is_reloaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log does not know of them."""
    scene = HostedScene()
    first = scene.join().answer
    assert isinstance(first, JoinGroupReply)
    parked = scene.join(first.member_id)
    assert parked.answer is None
    break_engine(monkeypatch, HeartbeatReceived, InvariantError("a bug"))
    scene.beat("nobody", 1)
    assert cause_of(parked) is RefusalReason.RELOADING


def test_a_request_from_before_a_bug_is_not_refused_once_more(scene: HostedScene) -> None:
    """The request has failed with the bug. What is refused later came later."""
    scene.hold(Write)
    before = scene.native("before")
    scene.pending.clear()
    scene.record(scene.group.start_again(scene.now_ms))
    scene.run()
    assert isinstance(before.answer, Unanswerable)
    scene.damage = Damage.UNSURE
    scene.release(Write)
    lines = len(scene.lines)
    later = scene.native("later")
    assert cause_of(later) is RefusalReason.LOG_FAILED
    assert isinstance(before.answer, Unanswerable)
    refused = [line for line in scene.lines[lines:] if line.event == "request_refused"]
    assert len(refused) == 1


# -- long computations ---------------------------------------------------------------------------


def long_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next native heartbeat takes long."""
    handle = GroupEngine.handle

    def long(engine: GroupEngine, event: Event, *, may_take_long: bool = True, **how: Any) -> Any:
        if not may_take_long and getattr(event, "member_id", "") == "long":
            raise LongComputation
        return handle(engine, event, may_take_long=may_take_long, **how)

    monkeypatch.setattr(GroupEngine, "handle", long)


def test_a_long_computation_holds_up_only_its_group(
    scene: HostedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests wait meanwhile and are decided in order."""
    long_once(monkeypatch)
    scene.hold(Compute)
    calls = [scene.native("long"), scene.native("first", 2)]
    assert scene.group.engine.phase is LogPhase.COMPUTING
    assert [call.answer for call in calls] == [None, None]
    scene.release(Compute)
    assert [error_of(call) for call in calls] == [ErrorCode.NONE, ErrorCode.NONE]


def test_a_bug_in_a_long_computation_reloads_the_group(
    scene: HostedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug there is handled like any other."""
    long_once(monkeypatch)
    scene.hold(Compute)
    call = scene.native("long")
    break_engine(monkeypatch, ConsumerHeartbeatReceived, InvariantError("a bug"))
    scene.release(Compute)
    assert cause_of(call) is RefusalReason.RELOADING
    assert in_memory(scene) == {"first"}


# -- assignors elsewhere -------------------------------------------------------------------------


def test_a_target_is_computed_elsewhere_while_the_group_continues() -> None:
    """The result is a decision like others: logged first, and heard of at a heartbeat."""
    config = GroupConfig(consumer_assignors=("plug-in",), consumer_assignment_interval_ms=0)
    scene = HostedScene(hosting_rules(config=config))
    scene.hold(Assign)
    assert scene.native("n").answer == ConsumerHeartbeatReply(
        member_id="n",
        member_epoch=1,
        heartbeat_interval_ms=config.consumer_heartbeat_interval_ms,
        assignment=frozenset(),
    )
    assert scene.waits(Assign) == 1
    assert error_of(scene.native("n", 1)) is ErrorCode.NONE
    assert scene.waits(Assign) == 1
    scene.release(Assign)
    later = scene.native("n", 1).answer
    assert isinstance(later, ConsumerHeartbeatReply)
    assert later.member_epoch == 2
    assert later.assignment


# -- regular expressions -------------------------------------------------------------------------


def test_regular_expressions_are_matched_while_the_group_continues(empty: HostedScene) -> None:
    """The member gets its partitions with a later heartbeat."""
    empty.hold(Resolve)
    first = empty.native("n", regex="f.*").answer
    assert isinstance(first, ConsumerHeartbeatReply)
    assert empty.waits(Resolve) == 1
    assert error_of(empty.native("n", first.member_epoch)) is ErrorCode.NONE
    assert empty.group.engine.has_regexes
    empty.release(Resolve)
    empty.wait(2_000)
    later = empty.native("n", first.member_epoch, owned={}).answer
    assert isinstance(later, ConsumerHeartbeatReply)
    assert later.assignment


def test_a_group_without_regular_expressions_has_none(scene: HostedScene) -> None:
    """New topics do not concern it."""
    assert not scene.group.engine.has_regexes


# -- ending --------------------------------------------------------------------------------------


def test_a_group_without_members_leaves_memory(scene: HostedScene) -> None:
    """The group is loaded again for the next request."""
    scene.native("first", -1)
    assert scene.group.engine.phase is LogPhase.UNLOADED
    assert error_of(scene.native("first", 0)) is ErrorCode.NONE


def test_the_events_of_a_deleted_group_are_forgotten_before_it_leaves_memory(
    scene: HostedScene,
) -> None:
    """A group of the same name begins another sequence."""
    scene.hold(Forget)
    scene.native("first", -1)
    forgets = scene.waits(Forget)
    if not forgets:  # an empty group is kept in the log
        scene.delete()
    assert scene.waits(Forget) == 1
    assert scene.group.engine.is_loaded
    scene.release(Forget)
    assert scene.group.engine.phase is LogPhase.UNLOADED


def test_a_request_behind_the_forgetting_is_decided(scene: HostedScene) -> None:
    """The group comes back."""
    scene.native("first", -1)
    scene.hold(Forget)
    scene.delete()
    call = scene.native("n")
    scene.release(Forget)
    assert error_of(call) is ErrorCode.NONE
    assert in_memory(scene) == {"n"}


def test_a_group_that_never_got_past_joining_stalls() -> None:
    """Its place may go to another group after a while."""
    scene = HostedScene(config=QUIET)
    first = scene.join(session_timeout_ms=120_000).answer
    assert isinstance(first, JoinGroupReply)
    scene.join(first.member_id, session_timeout_ms=120_000)
    work = scene.group.engine
    assert not work.has_stalled(scene.now_ms)
    assert not work.has_stalled(scene.now_ms + STALLED_AFTER_MS - 1)
    assert work.has_stalled(scene.now_ms + STALLED_AFTER_MS)


def test_a_group_with_a_served_member_does_not_stall() -> None:
    """One member that got past joining is enough."""
    scene = HostedScene(config=QUIET)
    scene.classic_member()
    assert not scene.group.engine.has_stalled(scene.now_ms + 2 * STALLED_AFTER_MS)


def test_a_loaded_group_with_members_does_not_stall() -> None:
    """The members were served before the restart."""
    scene = HostedScene(config=QUIET)
    scene.classic_member()
    again = scene.restart()
    again.beat("nobody", 1)
    assert again.group.is_live
    assert not again.group.engine.has_stalled(again.now_ms + 2 * STALLED_AFTER_MS)


def test_members_are_not_fenced_during_the_grace_after_a_pause() -> None:
    """The members could not send heartbeats during the pause."""
    scene = HostedScene()
    scene.native_member()
    scene.feed(Paused(1_000_000 + 100_000))
    scene.wait(99_000)
    assert scene.events_named("member_fenced") == []
    scene.wait(2_000)
    assert len(scene.events_named("member_fenced")) == 1


def test_refusals_are_looked_up_without_a_change(scene: HostedScene) -> None:
    """This holds also for a request that would change the group, and during a write."""
    work, call = scene.group.engine, scene.native("first", 99)
    assert error_of(call) is not ErrorCode.NONE
    assert work.refusal(call, scene.now_ms) == call.answer
    scene.hold(Write)
    joining = scene.native("x")
    assert work.refusal(joining, scene.now_ms) is None
    scene.release(Write)
    assert error_of(joining) is ErrorCode.NONE
