"""The driver makes records durable, applies them, then answers. A failed write changes nothing."""

from dataclasses import replace
from uuid import UUID

from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    DeleteGroupReceived,
    HeartbeatReceived,
)
from gateway.simulation.driver import Answer
from kafka_codecs.error_codes import ErrorCode
from tests.support.given_requests import NATIVE_JOIN
from tests.support.simulation import Stage


def joining(token: int, member_id: str) -> ConsumerHeartbeatReceived:
    """A first heartbeat."""
    return replace(NATIVE_JOIN, token=token, member_id=member_id, fresh_id=UUID(int=token))


def test_a_failed_write_is_refused_and_changes_nothing() -> None:
    """The client may retry."""
    stage, heard = Stage(), list[Answer]()
    stage.driver.log_failure_rate = 1.0
    stage.driver.ask(joining(1, "n1"), heard.append)
    assert heard[0].reply.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.driver.engine.state.group is None


def test_a_step_without_records_cannot_fail() -> None:
    """A refusal is such a step."""
    stage, heard = Stage(), list[Answer]()
    stage.driver.log_failure_rate = 1.0
    beat = HeartbeatReceived(token=1, member_id="c1", instance_id=None, generation=1)
    stage.driver.ask(beat, heard.append)
    assert heard[0].reply.error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_crash_loses_only_unanswered_batches() -> None:
    """It loses all batches after some cut, each as a whole, and all pending answers."""
    lost = 0
    for seed in range(20):
        stage, heard = Stage(seed), list[Answer]()
        stage.driver.ask(joining(1, "n1"), heard.append)
        assert len(heard) == 1
        stage.driver.linger_ms = 20
        stage.driver.ask(joining(2, "n2"), heard.append)
        stage.driver.ask(joining(3, "n3"), heard.append)
        stage.driver.crash(1)
        stage.wait(10)
        group = stage.driver.engine.state.group
        assert group is not None
        assert list(group.members) in (["n1"], ["n1", "n2"], ["n1", "n2", "n3"])
        lost += 3 - len(group.members)
        assert len(heard) == 1
    assert 0 < lost < 40


def test_a_doubtful_batch_is_refused_whether_written_or_not() -> None:
    """The group is reloaded from its log, and clients retry."""
    found = set()
    for seed in range(10):
        stage, heard = Stage(seed), list[Answer]()
        stage.driver.log_doubt_rate = 1.0
        stage.driver.ask(joining(1, "n1"), heard.append)
        assert [a.reply.error for a in heard] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        found.add(stage.driver.engine.state.group is not None)
        assert stage.driver.waiting == {}
    assert found == {False, True}


def test_a_taken_group_has_no_members_and_admits_none() -> None:
    """Members learn that they are not members. Joiners retry until the group is back."""
    stage, heard = Stage(), list[Answer]()
    stage.driver.ask(joining(1, "n1"), heard.append)
    stage.driver.take()
    assert stage.driver.has_given_way
    group = stage.driver.engine.state.group
    assert group is None or not group.members
    beat = HeartbeatReceived(token=2, member_id="c1", instance_id=None, generation=1)
    stage.driver.ask(beat, heard.append)
    stage.driver.ask(joining(3, "n2"), heard.append)
    stage.driver.give_back()
    stage.driver.ask(joining(4, "n2"), heard.append)
    assert [answer.reply.error for answer in heard] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NONE,
    ]


def test_a_gateway_gives_way_before_it_answers_after_a_restart() -> None:
    """Another coordinator took the group while it was down."""
    stage = Stage()
    stage.driver.ask(joining(1, "n1"), lambda _: None)
    stage.driver.crash(100)
    stage.driver.take()
    assert not stage.driver.has_given_way
    stage.wait(101)
    assert stage.driver.has_given_way


def test_clocks_differ_between_processes() -> None:
    """Sessions restart by the new clock."""
    stage = Stage()
    stage.driver.ask(joining(1, "n1"), lambda _: None)
    stage.driver.crash(100, clock_ahead_ms=-600_000)
    stage.wait(101)
    assert stage.driver.now_ms == stage.world.now_ms - 600_000
    due_ms = stage.driver.engine.next_deadline_ms()
    assert due_ms is not None
    assert 0 < due_ms - stage.driver.now_ms <= 5_000
    stage.wait(5_200)
    group = stage.driver.engine.state.group
    assert group is None or not group.members


def test_deadlines_are_handled_when_they_are_due() -> None:
    """A silent member is removed after its session."""
    stage, heard = Stage(), list[Answer]()
    stage.driver.ask(joining(1, "n1"), heard.append)
    stage.wait(4_900)
    assert stage.driver.engine.state.group is not None
    stage.driver.ask(DeleteGroupReceived(token=2), heard.append)
    stage.wait(200)
    stage.driver.ask(DeleteGroupReceived(token=3), heard.append)
    codes = [answer.reply.error for answer in heard]
    assert codes == [ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE]
