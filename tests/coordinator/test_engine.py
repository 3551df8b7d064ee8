"""The engine of one group: `handle` decides, and `apply` changes the state."""

import pytest

from coordinator.engine import GroupEngine
from coordinator.interface.config import GroupConfig
from coordinator.interface.errors import InvariantError
from coordinator.interface.events import (
    HeartbeatReceived,
    Request,
    TimePassed,
)
from coordinator.interface.records import GroupConfigs
from coordinator.interface.replies import HeartbeatReply, JoinGroupReply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import DeadlineKey, DeadlineKind, DeadlineSet
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.replay import snapshot
from tests.support.engine_requests import CLASSIC_JOIN, NATIVE_JOIN
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript

BEAT = HeartbeatReceived(token=7, member_id="a", instance_id=None, generation=1)


def test_a_refusal_writes_no_record() -> None:
    """A refusal changes nothing."""
    step = GroupEngine("orders", GroupConfig()).handle(BEAT, now_ms=0, topics=Topics())
    assert step.records == ()
    ((token, reply),) = step.replies
    assert token == 7
    assert isinstance(reply, HeartbeatReply)
    assert reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert "no members" in reply.reason


def test_only_durable_records_go_to_the_log(group: GroupScript) -> None:
    """Deadlines and phases do not. A heartbeat writes nothing else."""
    group.given_consumer_group(given_classic("c1", epoch=9), given_native("n1"))
    group.beat("c1", 9)
    assert group.last_step.records != ()
    assert group.last_step.durable == ()
    group.native("n2")
    assert 0 < len(group.last_step.durable) < len(group.last_step.records)


def test_a_dropped_step_has_no_effect(group: GroupScript) -> None:
    """The same event leads to the same decision again."""
    group.given_consumer_group(given_classic("c1"), given_native("n1"))
    event = HeartbeatReceived(token=1, member_id="c1", instance_id=None, generation=10)
    before = snapshot(group.engine.state)
    steps = [group.engine.handle(event, now_ms=group.now_ms, topics=group.topics) for _ in range(2)]
    assert steps[0] == steps[1]
    assert snapshot(group.engine.state) == before


def test_the_next_deadline_is_the_earliest(group: GroupScript) -> None:
    """The deadline is None while none is running."""
    assert group.engine.next_deadline_ms() is None
    group.native("n1")
    assert group.engine.next_deadline_ms() == group.now_ms + 45_000
    group.join("c1", rebalance_timeout_ms=7_000)
    assert group.engine.next_deadline_ms() == group.now_ms + 7_000


def test_an_early_time_event_has_no_effect(group: GroupScript) -> None:
    """The driver may wake up without a reason."""
    group.native("n1")
    assert group.feed(TimePassed()).records == ()


def test_a_deadline_that_an_earlier_one_moved_does_not_expire(group: GroupScript) -> None:
    """Both sessions end at the same time. The first makes the group classic, which restarts the
    other session."""
    group.given_consumer_group(given_classic("c1", session_timeout_ms=45_000), given_native("a"))
    group.wait(45_000)
    assert group.classic.members.keys() == {"c1"}
    assert group.left_ms(DeadlineKind.SESSION, "c1") == 45_000


@pytest.mark.parametrize(
    ("group_id", "event", "error"),
    [
        ("", BEAT, ErrorCode.INVALID_GROUP_ID),
        ("", CLASSIC_JOIN, ErrorCode.INVALID_GROUP_ID),
        ("", NATIVE_JOIN, ErrorCode.INVALID_REQUEST),
        ("  ", NATIVE_JOIN, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_blank_group_id_is_refused(group_id: str, event: Request, error: ErrorCode) -> None:
    """The code is INVALID_GROUP_ID, and a JoinGroup echoes its member id. The consumer protocol has
    another code, and also refuses an id of spaces."""
    step = GroupEngine(group_id, GroupConfig()).handle(event, now_ms=0, topics=Topics())
    ((_, reply),) = step.replies
    assert reply.error == error
    if isinstance(reply, JoinGroupReply):
        assert reply.member_id == "c1"


def test_a_fork_is_independent(group: GroupScript) -> None:
    """The fork has the deadlines and configs of the original."""
    group.native("n", 0)
    before, next_ms = snapshot(group.engine.state), group.engine.next_deadline_ms()
    fork = group.engine.fork()
    assert (snapshot(fork.state), fork.next_deadline_ms()) == (before, next_ms)
    fork.apply(DeadlineSet(DeadlineKey(DeadlineKind.SESSION, "n"), group.now_ms + 1))
    fork.apply(GroupConfigs(overrides={"consumer.session.timeout.ms": 50_000}))
    assert fork.next_deadline_ms() == group.now_ms + 1
    assert fork.describe_configs() != group.engine.describe_configs()
    assert (snapshot(group.engine.state), group.engine.next_deadline_ms()) == (before, next_ms)


def test_the_original_cannot_change_until_all_its_forks_are_released(group: GroupScript) -> None:
    """A fork shares rows with it, and would see some of the change."""
    group.native("n", 0)
    first, second = group.engine.fork(), group.engine.fork()
    third = second.fork()
    first.release()
    record = DeadlineSet(DeadlineKey(DeadlineKind.SESSION, "n"), 1)
    for forked in (group.engine, second):
        before = snapshot(forked.state)
        with pytest.raises(InvariantError):
            forked.apply(record)
        assert snapshot(forked.state) == before
    third.release()
    second.apply(record)
    second.release()
    group.engine.apply(record)


def test_a_group_cannot_change_while_a_step_is_decided(
    group: GroupScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long computation runs in a thread, while the driver could continue."""
    record = DeadlineSet(DeadlineKey(DeadlineKind.SESSION, "n"), 1)
    monkeypatch.setattr("coordinator.engine.check_size", lambda *_: group.engine.apply(record))
    with pytest.raises(InvariantError):
        group.native("n", 0)
    group.engine.apply(record)
