"""What recalled members are told. The tests of adoption and release have the groups around it."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    Leaver,
    SyncGroupReceived,
)
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    LeaveGroupReply,
    SyncGroupReply,
)
from coordinator.interface.topics import Partition
from gateway.hosting.adoption_steps import GaveUp, Heard
from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import Call
from gateway.hosting.recall import FENCED, RECALLED, Recall
from kafka_codecs.consumer_protocol import decode_assignment
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic_group_member
from tests.support.group_values import Owned, subscription

NATIVE = replace(given_classic_group_member("n", {"foo": (1,)}), protocols=())
IDLE = replace(NATIVE, member_id="i", assignment=b"")
MEMBERS = {
    "a": given_classic_group_member("a", {"foo": (0,)}),
    "n": NATIVE,
    "i": IDLE,
}
OWNED = frozenset({Partition(UUID(int=1), 1)})
CONNECTION = 1


class Script:
    """A recall, and what it tells."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.recall = Recall(5_000)

    def ask(self, event: Any, connection: int = CONNECTION) -> Any:
        call = Call(api=GroupApi.JOIN, make=None, event=event, connection=connection)
        answer = self.recall.answer(call, MEMBERS)
        self.told += self.recall.take_heard()
        return answer

    def join(self, member_id: str, owned: Owned | None = None, **how: Any) -> Any:
        join = JoinGroupReceived(
            token=1,
            version=9,
            member_id=member_id,
            instance_id=None,
            client_id="client",
            client_host="/127.0.0.1",
            protocol_type="consumer",
            protocols=(("range", subscription(("foo",), owned=owned)),),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            fresh_id=UUID(int=1),
        )
        return self.ask(join, **how)

    def sync(self, member_id: str) -> Any:
        return self.ask(
            SyncGroupReceived(
                token=1, version=5, member_id=member_id, instance_id=None, generation=1
            )
        )

    def native(self, member_id: str, epoch: int, owned: frozenset[Partition] | None = None) -> Any:
        beat = ConsumerHeartbeatReceived(
            token=1,
            version=1,
            member_id=member_id,
            member_epoch=epoch,
            client_id="client",
            client_host="/127.0.0.1",
            owned=owned,
            fresh_id=UUID(int=1),
        )
        return self.ask(beat)


@pytest.fixture
def on() -> Script:
    return Script()


def test_a_heartbeat_shows_that_the_member_is_alive(on: Script) -> None:
    beat = HeartbeatReceived(token=1, member_id="a", instance_id=None, generation=1)
    assert on.ask(beat) is RECALLED
    assert on.told == [Heard("a")]


def test_an_eager_join_shows_that_it_has_given_up(on: Script) -> None:
    assert on.join("a") is RECALLED
    assert on.told == [GaveUp("a")]


def test_a_cooperative_member_has_given_up_when_its_client_returns(on: Script) -> None:
    """It loses its partitions when it gets UNKNOWN_MEMBER_ID."""
    assert on.join("a", owned={"foo": (0,)}) is RECALLED
    assert on.told == [Heard("a")]
    assert on.join("", connection=CONNECTION + 1) is None
    assert on.told == [Heard("a")]
    assert on.join("") is None
    assert on.told == [Heard("a"), GaveUp("a")]


def test_a_client_returns_once(on: Script) -> None:
    """What joins on the connection later is a member of the cluster's group."""
    on.join("a", owned={"foo": (0,)})
    on.join("")
    on.told.clear()
    assert on.join("", owned={"foo": (0,)}) is None
    assert on.told == []


def test_a_client_that_returns_with_its_partitions_still_owns_them(on: Script) -> None:
    """franz-go keeps them: the leader of its next round knows what it claims."""
    on.join("a", owned={"foo": (0,)})
    on.told.clear()
    assert on.join("", owned={"foo": (0,)}) is None
    assert on.told == [GaveUp("a", still_owns=True)]


def test_a_member_that_leaves_does_not_come_back(on: Script) -> None:
    left = on.ask(LeaveGroupReceived(token=1, members=(Leaver(member_id="a"),)))
    assert isinstance(left, LeaveGroupReply)
    assert on.told == [GaveUp("a", comes_back=False)]


NOTHING = ConsumerHeartbeatReply(
    member_id="n", member_epoch=7, heartbeat_interval_ms=5_000, assignment=frozenset()
)


def test_a_native_member_is_told_to_own_nothing_until_it_says_so(on: Script) -> None:
    """The answer may be lost, so it is repeated."""
    assert on.native("n", 7, frozenset()) == NOTHING  # a late one, from before it got partitions
    assert on.native("n", 7) == NOTHING
    assert on.native("n", 7, OWNED) == NOTHING
    assert on.told == [Heard("n")] * 3
    assert on.native("n", 7, frozenset()) is FENCED
    assert GaveUp("n") not in on.told


def test_a_native_member_has_given_up_when_it_comes_back_with_epoch_0(on: Script) -> None:
    assert on.native("n", 0, frozenset()) is None
    assert on.told == [GaveUp("n")]


def test_a_native_member_that_held_nothing_is_fenced_at_once(on: Script) -> None:
    """librdkafka acknowledges no assignment that changes nothing."""
    assert on.native("i", 7) is FENCED


@pytest.mark.parametrize("epoch", [-1, -2])
def test_a_native_member_that_leaves_does_not_come_back(on: Script, epoch: int) -> None:
    assert on.native("n", epoch) == ConsumerHeartbeatReply(member_id="n", member_epoch=epoch)
    assert on.told == [GaveUp("n", comes_back=False)]


def test_a_classic_member_beside_native_ones_gets_a_round_without_partitions(on: Script) -> None:
    """The coordinator of native members does not ask a joining one what it owns."""
    on.recall.leads_rounds = True
    joined = on.join("a", owned={"foo": (0,)})
    assert isinstance(joined, JoinGroupReply)
    assert (joined.error, joined.protocol_name) == (ErrorCode.NONE, "range")
    assert joined.leader != "a"
    synced = on.sync("a")
    assert isinstance(synced, SyncGroupReply)
    _version, assignment = decode_assignment(synced.assignment)
    assert assignment.assigned_partitions == ()
    assert on.told == [Heard("a")]
    assert on.join("a") is RECALLED
    assert on.told[1:] == [GaveUp("a")]
    assert on.join("") is None


def test_an_earlier_round_does_not_end(on: Script) -> None:
    on.recall.leads_rounds = True
    assert on.sync("a") is RECALLED


def test_the_next_recall_begins_with_nothing(on: Script) -> None:
    on.join("a", owned={"foo": (0,)})
    on.recall.in_flight.add(1)
    on.recall.end()
    on.told.clear()
    assert on.join("") is None
    assert on.told == []
    assert not on.recall.in_flight
