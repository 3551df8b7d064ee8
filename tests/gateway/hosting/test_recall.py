"""What recalled members are told. The tests of adoption and release have the groups around it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest

from coordinator.interface.config import GroupConfig
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    LeaveGroupReceived,
    Leaver,
    OffsetCommitReceived,
)
from coordinator.interface.records import ClassicGroupMember, ClassicGroupValue
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    LeaveGroupReply,
    OffsetReply,
    SyncGroupReply,
)
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import Token
from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import Call, Commit, Outcome
from gateway.hosting.holders import Grace, Holders
from gateway.hosting.recall import FENCED, RECALLED, Recall
from kafka_codecs.consumer_protocol import decode_assignment
from kafka_codecs.error_codes import ErrorCode
from tests.support.engine_requests import heartbeat_received, join_received, sync_received
from tests.support.group_records import given_classic_group_member
from tests.support.group_values import Owned

NATIVE = replace(given_classic_group_member("n", {"foo": (1,)}), protocols=())
IDLE = replace(NATIVE, member_id="i", assignment=b"")
STATIC = given_classic_group_member("s", {"foo": (2,)}, instance_id="one")
RECORD = ClassicGroupValue(
    protocol_type="consumer",
    generation=7,
    protocol=None,
    leader=None,
    members=(
        given_classic_group_member("a", {"foo": (0,)}),
        given_classic_group_member("b", {"foo": (0,)}),
        NATIVE,
        IDLE,
        STATIC,
    ),
    older_epochs={"i": 6},
)
ACCEPTED = Outcome(decision=OffsetReply())
OWNED = frozenset({Partition(UUID(int=1), 1)})
CONNECTION = 1


@dataclass(frozen=True)
class Heard:
    """A member is alive."""

    member_id: str


@dataclass(frozen=True)
class GaveUp:
    """A member holds nothing any more."""

    member_id: str
    comes_back: bool = True
    still_owns: bool = False


class Witness(Holders):
    """Members that may still hold partitions, and what was seen of them."""

    def __init__(self, members: Iterable[ClassicGroupMember]) -> None:
        super().__init__(members, 0, Grace())
        self.told: list[Any] = []

    def mark_seen(self, member_id: str, now_ms: int) -> None:
        self.told.append(Heard(member_id))
        super().mark_seen(member_id, now_ms)


class Recorded(Recall):
    """A recall that keeps what it learns."""

    holders: Witness

    def let_go(self, member_id: str, **how: bool) -> None:
        self.holders.told.append(GaveUp(member_id, **how))
        super().let_go(member_id, **how)


class Script:
    """A recall, and what it learns."""

    def __init__(self, record: ClassicGroupValue = RECORD, *, has_all_members: bool = True) -> None:
        holders = Witness(record.members)
        self.told = holders.told
        config = GroupConfig(consumer_heartbeat_interval_ms=5_000)
        self.recall = Recorded(
            "orders",
            record,
            config,
            holders,
            leads_rounds=False,
            has_all_members=has_all_members,
        )

    def ask(self, event: Any, connection: int = CONNECTION) -> Any:
        call = Call(api=GroupApi.JOIN, make=None, event=event, connection=connection)
        return self.recall.answer(call, 1_000)

    def commit(
        self,
        member_id: str,
        epoch: int,
        *,
        has_guard: bool = True,
        instance_id: str | None = None,
    ) -> Any:
        """The outcome of a commit."""

        def make(token: Token, topics: Topics) -> OffsetCommitReceived:
            return OffsetCommitReceived(
                token=token,
                version=9,
                member_id=member_id,
                instance_id=instance_id,
                epoch=epoch,
                partitions=frozenset(),
            )

        commit = Commit(make=make, topic_names=frozenset(), has_member=True, order_keys=frozenset())
        return self.recall.check(commit, topics=Topics(), has_guard=has_guard, now_ms=1_000)

    def leave(self, *leavers: Leaver) -> Any:
        """The codes of the leavers."""
        reply = self.ask(LeaveGroupReceived(token=1, members=leavers))
        assert isinstance(reply, LeaveGroupReply)
        return [member.error for member in reply.members]

    def beat(self, member_id: str) -> Any:
        return self.ask(heartbeat_received(member_id, 7))

    def join(
        self,
        member_id: str,
        owned: Owned | None = None,
        *,
        connection: int = CONNECTION,
        **fields: Any,
    ) -> Any:
        return self.ask(join_received(member_id, owned=owned, **fields), connection)

    def sync(self, member_id: str) -> Any:
        return self.ask(sync_received(member_id, 1))

    def native(
        self, member_id: str, epoch: int, owned: frozenset[Partition] | None = None, **how: Any
    ) -> Any:
        beat = ConsumerHeartbeatReceived(
            token=1,
            version=1,
            member_id=member_id,
            member_epoch=epoch,
            client_id="client",
            client_host="/127.0.0.1",
            owned=owned,
            fresh_id=UUID(int=1),
            **how,
        )
        return self.ask(beat)


@pytest.fixture
def on() -> Script:
    return Script()


def test_a_heartbeat_shows_that_the_member_is_alive(on: Script) -> None:
    assert on.beat("a") is RECALLED
    assert on.told == [Heard("a")]


def test_an_eager_join_shows_that_it_has_given_up(on: Script) -> None:
    assert on.join("a") is RECALLED
    assert on.told == [GaveUp("a")]


@pytest.mark.parametrize(
    ("generation", "answers"),
    [(-1, [GaveUp("a")]), (6, [Heard("a")]), (7, [GaveUp("a")])],
    ids=["none", "earlier", "present"],
)
def test_an_eager_join_of_an_earlier_generation_may_be_late(
    on: Script, generation: int, answers: list[Any]
) -> None:
    """An earlier one proves nothing about what the member has got since (DEV D5)."""
    assert on.join("a", generation=generation, embedded_version=2) is RECALLED
    assert on.told == answers


def test_a_cooperative_member_has_given_up_when_its_client_returns(on: Script) -> None:
    """A cooperative client loses its partitions when it gets UNKNOWN_MEMBER_ID."""
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
    assert on.leave(Leaver(member_id="a")) == [ErrorCode.NONE]
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
    on.native("n", 7)
    assert on.native("n", 7, frozenset()) is FENCED
    on.told.clear()
    assert on.native("n", 0, frozenset()) is None
    assert on.told == [GaveUp("n")]


def test_a_join_that_nobody_asked_for_may_be_late_unless_it_is_repeated(on: Script) -> None:
    """A copy of the member's first join proves nothing about what it has got since (DEV D25). A
    client that was fenced before the recall, or by an earlier process, joins until it is in."""
    assert on.native("n", 0, frozenset()) is FENCED
    assert on.native("n", 7) == NOTHING
    assert on.told == [Heard("n")]
    assert on.native("n", 0, frozenset()) is None
    assert on.told == [Heard("n"), GaveUp("n")]


def test_a_join_of_a_native_member_that_held_nothing_needs_no_proof(on: Script) -> None:
    assert on.native("i", 0, frozenset()) is None
    assert on.told == [GaveUp("i")]


def test_a_native_member_that_held_nothing_is_fenced_at_once(on: Script) -> None:
    """librdkafka acknowledges no assignment that changes nothing."""
    assert on.native("i", 7) is FENCED


@pytest.mark.parametrize("epoch", [-1, -2])
def test_a_native_member_that_leaves_does_not_come_back(on: Script, epoch: int) -> None:
    assert on.native("n", epoch) == ConsumerHeartbeatReply(member_id="n", member_epoch=epoch)
    assert on.told == [GaveUp("n", comes_back=False)]


def test_a_classic_member_among_native_ones_gets_a_round_without_partitions(on: Script) -> None:
    """The coordinator of native members does not ask a joining one what it owns."""
    on.recall.leads_rounds = True
    joined = on.join("a", owned={"foo": (0,)})
    assert isinstance(joined, JoinGroupReply)
    assert (joined.error, joined.protocol_name) == (ErrorCode.NONE, "range")
    assert on.commit("a", joined.generation) == ACCEPTED
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


def test_the_release_learns_who_comes_back(on: Script) -> None:
    """Members that have left, or whose time is over, are not waited for in the cluster."""
    on.join("a")
    on.leave(Leaver(member_id="b"))
    on.join("", owned={"foo": (2,)}, instance_id="one", connection=2)
    on.recall.give_up_overdue(10**9)
    assert on.recall.returning == 2
    assert [member.member_id for member in on.recall.owners] == ["s"]
    assert not on.recall.is_native_due, "nobody has heard of it"


@pytest.mark.parametrize("is_overdue", [True, False])
def test_the_release_learns_of_a_native_member_that_comes_back(
    on: Script, *, is_overdue: bool
) -> None:
    """One that is heard, and does not rejoin in time, is fenced by the cluster."""
    if is_overdue:
        rejoin_by_ms = max(NATIVE.session_timeout_ms, NATIVE.rebalance_timeout_ms)
        on.recall.holders.mark_seen("n", rejoin_by_ms - 1)
        on.recall.give_up_overdue(rejoin_by_ms)
    else:
        assert on.native("n", 0) is FENCED  # it may be late, so the client is told to repeat it
        on.native("n", 0)
    assert on.recall.is_native_due


def test_nobody_is_known_to_a_process_before_which_all_had_given_up() -> None:
    """Strangers may be members in the cluster, which answers them once the anchor has left."""
    on = Script(replace(RECORD, members=()))
    assert (on.beat("a"), on.sync("a"), on.native("n", 7), on.join("a")) == (None,) * 4
    assert on.ask(LeaveGroupReceived(token=1, members=(Leaver(member_id="a"),))) is None
    assert on.commit("a", 7) == Outcome(refused=RECALLED)


# -- members that are not in the group any more, and strangers -------------------------------------


def test_a_member_whose_session_is_over_is_unknown(on: Script) -> None:
    for member_id in ("a", "n"):
        on.recall.holders.drop(member_id)
    for answer in (on.beat("a"), on.sync("a"), on.native("n", 7)):
        assert answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert on.commit("a", 7).decision.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert on.leave(Leaver(member_id="a")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert on.told == []


def test_nobody_but_the_recalled_members_is_in_a_group_that_is_released(on: Script) -> None:
    """A group whose adoption is undone may have another member."""
    for answer in (on.beat("stranger"), on.sync("stranger"), on.native("stranger", 7)):
        assert answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    undone = Script(has_all_members=False)
    assert [undone.beat("stranger"), undone.native("stranger", 7)] == [None, None]


def test_each_leaver_has_its_own_answer(on: Script) -> None:
    """An admin names an instance; a member names itself, and perhaps its instance."""
    assert on.leave(
        Leaver(member_id="stranger"),
        Leaver(member_id="", instance_id="one"),
        Leaver(member_id="a"),
        Leaver(member_id="", instance_id="two"),
        Leaver(member_id="b", instance_id="one"),
    ) == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert on.told == [GaveUp("s", comes_back=False), GaveUp("a", comes_back=False)]


def test_the_replacement_of_an_instance_takes_its_place(on: Script) -> None:
    """The member that it replaces is silent; the release does not wait for the end of its
    session."""
    assert on.join("", instance_id="one", connection=2) is None
    assert on.told == [GaveUp("s")]
    assert on.join("", instance_id="one", connection=3) is None
    assert on.told == [GaveUp("s")]


def test_the_replacement_of_a_native_instance_takes_its_place_if_its_client_has_gone() -> None:
    """While its client is connected, the instance is in use (DEV D82)."""
    native = replace(NATIVE, instance_id="two")
    on = Script(replace(RECORD, members=(native,)))
    assert on.native("n-2", 0, instance_id="two") is None
    assert on.told == []
    assert on.native("n-2", 0, instance_id="two", disconnected=frozenset({"n"})) is None
    assert on.told == [GaveUp("n")]


def test_each_of_two_members_on_one_connection_is_followed(on: Script) -> None:
    """Answers leave in order, so that the first one has lost its partitions in either case."""
    for member_id in ("a", "b"):
        on.join(member_id, owned={"foo": (0,)})
    on.told.clear()
    for _ in range(3):
        on.join("")
    assert on.told == [GaveUp("a"), GaveUp("b")]


@pytest.mark.parametrize("leads_rounds", [False, True])
def test_a_join_without_protocols_is_refused(on: Script, *, leads_rounds: bool) -> None:
    on.recall.leads_rounds = leads_rounds
    for answer in (on.join("a", protocols=()), on.join("", instance_id="one", protocols=())):
        assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert on.told == []


# -- commits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("member_id", "epoch"), [("a", 7), ("n", 7), ("i", 6)])
def test_a_commit_of_the_present_epoch_is_stored(on: Script, member_id: str, epoch: int) -> None:
    """A record of a consumer group has the epochs of those that lag."""
    assert on.commit(member_id, epoch) == ACCEPTED


@pytest.mark.parametrize(
    ("member_id", "code"),
    [
        ("a", ErrorCode.ILLEGAL_GENERATION),
        ("n", ErrorCode.STALE_MEMBER_EPOCH),
        ("stranger", ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_commit_of_an_older_epoch_is_refused(on: Script, member_id: str, code: ErrorCode) -> None:
    """The statement was on its way while the member got other partitions."""
    assert on.commit(member_id, 6).decision.error is code


def test_nothing_is_committed_without_a_guard(on: Script) -> None:
    assert on.commit("a", 7, has_guard=False) == Outcome(refused=RECALLED)
    assert on.commit("n", 7, has_guard=False) == Outcome(refused=FENCED)


# -- the engine's rules ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member_id", "instance_id", "epoch", "code"),
    [
        ("s", "one", 7, ErrorCode.NONE),
        ("s", None, 7, ErrorCode.NONE),
        ("s", "one", 6, ErrorCode.ILLEGAL_GENERATION),
        ("b", "one", 7, ErrorCode.FENCED_INSTANCE_ID),
        ("x", None, 7, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_commits_are_checked_by_the_rules_of_a_classic_group(
    on: Script, member_id: str, instance_id: str | None, epoch: int, code: ErrorCode
) -> None:
    outcome = on.commit(member_id, epoch, instance_id=instance_id)
    if code:
        assert outcome.decision.error is code
    else:
        assert outcome == ACCEPTED
