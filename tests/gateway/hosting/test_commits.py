"""The commits of a member are stored in the order in which the member sent them."""

from collections.abc import Mapping

import pytest

from gateway.hosting.answers import RefusalReason
from gateway.hosting.call_stages import MEMBER_WAIT_MS
from gateway.hosting.calls import Abandoned, LearnTopics, Refused, StoreCommits
from gateway.hosting.effects import AskCoordinator
from gateway.hosting.inputs import Done
from gateway.hosting.states import CommitPhase, Stage
from kafka_codecs.error_codes import ErrorCode
from tests.gateway.hosting.scene_commits import (
    OK,
    ids_of,
    in_flight,
    member_commit,
    outcomes,
    pending_action_of,
    phases,
    tokens,
)
from tests.support.hosted_scene import HostedScene


@pytest.fixture
def on(live: HostedScene) -> HostedScene:
    """A group with one native member, which has all partitions."""
    return live


def test_a_member_commits_on_a_new_connection_after_its_earlier_commit_has_ended(
    on: HostedScene,
) -> None:
    """The gateway may not know yet that the old connection is gone. Stored last, the earlier commit
    would take the offset back."""
    on.hold(StoreCommits)
    first, second = member_commit(on), member_commit(on)
    assert on.waits(StoreCommits) == 1
    assert second.stage is Stage.QUEUED
    assert on.take(StoreCommits).commits == tuple(tokens(first))
    on.feed(Done(pending_action_of(first), {tokens(first)[0]: OK}))
    assert on.take(StoreCommits).commits == tuple(tokens(second))


def test_a_commit_behind_another_one_waits_for_a_limited_time(on: HostedScene) -> None:
    """The member's next heartbeat waits behind it. Those that came later still wait for the first
    commit."""
    on.hold(StoreCommits)
    first, second = member_commit(on), member_commit(on)
    on.wait(1_000)
    third = member_commit(on)
    on.wait(MEMBER_WAIT_MS - 1_000)
    refused = outcomes(second)[0].refused if isinstance(second.answer, Mapping) else second.answer
    assert isinstance(refused, Refused)
    assert refused.cause is RefusalReason.COMMIT_IN_FLIGHT
    assert third.stage is Stage.QUEUED
    on.take(StoreCommits)
    on.release(StoreCommits)
    on.feed(Done(pending_action_of(first), {tokens(first)[0]: OK}))
    assert [token for token, _ in on.sent] == tokens(third)


def test_a_commit_waits_even_if_the_earlier_one_is_not_decided_yet(on: HostedScene) -> None:
    """The earlier commit may wait for the topics that it names, while the later one needs none."""
    on.hold(LearnTopics)
    first = member_commit(on, knows_topics=False)
    second = member_commit(on)
    assert on.sent == []
    on.release(LearnTopics)
    assert [token for token, _ in on.sent] == [*tokens(first), *tokens(second)]


def test_a_lost_connection_ends_the_wait_for_its_commit(on: HostedScene) -> None:
    """The later commit is refused until the cluster refuses the earlier one."""
    on.hold(StoreCommits)
    first, second = member_commit(on), member_commit(on)
    on.hold(AskCoordinator)
    on.disconnect(first)
    decision = outcomes(second)[0].decision
    assert getattr(decision, "error", None) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert phases(first) == [CommitPhase.STRAY]
    on.take(StoreCommits)
    on.release(AskCoordinator, StoreCommits)
    member_commit(on)
    assert [ids for _, ids in on.sent] == [ids_of(on)]


def test_a_commit_whose_client_has_gone_leaves_the_queue(on: HostedScene) -> None:
    """Commits behind it do not wait for it."""
    on.hold(StoreCommits)
    first, second, third = member_commit(on), member_commit(on), member_commit(on)
    on.disconnect(second)
    on.take(StoreCommits)
    on.release(StoreCommits)
    on.feed(Done(pending_action_of(first), {tokens(first)[0]: OK}))
    assert [token for token, _ in on.sent] == tokens(third)


def test_a_commit_on_an_abandoned_connection_is_not_stored(on: HostedScene) -> None:
    """The commit waited there, behind a parked JoinGroup, for longer than the member's newer commit
    took on its next connection. Stored now, it would take the offset back."""
    newer = member_commit(on, connection=2)
    older = member_commit(on, connection=1)
    assert isinstance(older.answer, Abandoned)
    assert [token for token, _ in on.sent] == tokens(newer)
    member_commit(on, connection=2)
    member_commit(on, connection=3)
    assert len(on.sent) == 3


def test_a_commit_may_wait_on_the_newer_connection_of_a_client_that_has_turned_back(
    on: HostedScene,
) -> None:
    """The client has a connection to each broker, and continues with the older one."""
    assert isinstance(member_commit(on, connection=1, newest_connection=2).answer, Mapping)
    assert isinstance(member_commit(on, connection=2, newest_connection=2).answer, Abandoned)
    assert isinstance(member_commit(on, connection=3, newest_connection=3).answer, Mapping)


def test_a_commit_that_waits_its_turn_may_be_on_an_abandoned_connection(on: HostedScene) -> None:
    """The newer one was not decided yet when it arrived."""
    on.hold(LearnTopics)
    newer = member_commit(on, connection=2, knows_topics=False)
    older = member_commit(on, connection=1)
    assert older.stage is Stage.QUEUED
    on.release(LearnTopics)
    assert isinstance(older.answer, Abandoned)
    assert [token for token, _ in on.sent] == tokens(newer)


def test_a_former_members_commit_closes_the_older_connection_once_it_returns(
    on: HostedScene,
) -> None:
    """The member may return with the same id and epoch, and would then still store its older
    commit."""
    epoch = on.native_member("m").member_epoch
    on.native("m", -1)
    on.commits(("m", epoch, {"foo": [1]}), connection=2)
    epoch = on.native_member("m").member_epoch
    assert isinstance(on.commits(("m", epoch, {"foo": [1]}), connection=1).answer, Abandoned)


def test_a_commit_that_a_stray_refuses_closes_the_older_connection(on: HostedScene) -> None:
    """The member may give it up, leave and return with the same id and epoch, before an older
    commit arrives (truth seed 1561922)."""
    on.hold(StoreCommits, AskCoordinator)
    on.disconnect(member_commit(on, connection=1))
    refused = outcomes(member_commit(on, connection=3))[0].decision
    assert getattr(refused, "error", None) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    on.take(StoreCommits)
    on.release(AskCoordinator, StoreCommits)
    assert isinstance(member_commit(on, connection=2).answer, Abandoned)
    assert on.sent == []


def test_a_commit_that_has_waited_in_vain_closes_the_older_connection(on: HostedScene) -> None:
    """Behind a commit whose answer is slow, as behind a stray. A call that gives up later does not
    open its older connection again."""
    on.hold(StoreCommits)
    first = member_commit(on, connection=1)
    member_commit(on, connection=4)
    on.wait(1_000)
    member_commit(on, connection=3)
    on.wait(MEMBER_WAIT_MS)
    on.take(StoreCommits)
    on.release(StoreCommits)
    on.feed(Done(pending_action_of(first), {tokens(first)[0]: OK}))
    assert isinstance(member_commit(on, connection=2).answer, Abandoned)
    assert isinstance(member_commit(on, connection=3).answer, Abandoned)
    assert on.sent == []


def test_a_native_member_that_joins_again_closes_its_older_connection(on: HostedScene) -> None:
    """Perhaps as a new process with the id of one that crashed (truth seed 1581046). It has the
    same epoch, and may have fetched before an older commit arrives, which would set the offset
    ahead of where it has begun."""
    on.native("n", connection=2)
    assert isinstance(member_commit(on, connection=1).answer, Abandoned)
    assert on.sent == []
    assert in_flight(on) == set()
    assert isinstance(member_commit(on, connection=2).answer, Mapping)


def test_a_commit_that_waits_while_its_member_joins_again_is_not_stored(on: HostedScene) -> None:
    """The commit arrived first, but the member fetches without waiting for what is not decided
    yet."""
    on.hold(LearnTopics)
    older = member_commit(on, connection=1, knows_topics=False)
    on.native("n", connection=2)
    on.release(LearnTopics)
    assert isinstance(older.answer, Abandoned)
    assert on.sent == []
    assert in_flight(on) == set()


def test_a_refused_join_closes_no_connection_of_a_member(on: HostedScene) -> None:
    """A heartbeat does not close one either, because it proves no new beginning."""
    on.native("n", connection=2, regex="(")
    on.native("n", 2, connection=2)
    assert isinstance(member_commit(on, connection=1).answer, Mapping)


def test_a_refused_commit_closes_no_connection_of_a_member(on: HostedScene) -> None:
    """A client may ask under any member id."""
    on.commits(("n", 99, None), connection=2)
    on.commits(("stranger", 2, None), connection=2)
    assert isinstance(member_commit(on, connection=1).answer, Mapping)


def test_members_have_connections_of_their_own(on: HostedScene) -> None:
    """Their commits say nothing about each other."""
    other = on.native_member("m")
    on.commits(("m", other.member_epoch, {"foo": [1]}), connection=2)
    assert isinstance(member_commit(on, connection=1).answer, Mapping)


def test_the_last_member_to_leave_closes_its_older_connection_if_it_tries_again(
    on: HostedScene,
) -> None:
    """The member may return under the same id before the older commit arrives."""
    on.native("n", -1)
    member_commit(on, connection=2)
    assert isinstance(member_commit(on, connection=1).answer, Abandoned)


def test_members_commit_side_by_side(on: HostedScene) -> None:
    """A partition has one owner, so the order of different members does not matter."""
    other = on.native_member("m")
    on.hold(StoreCommits)
    member_commit(on)
    on.commit("m", other.member_epoch, {"foo": [1]})
    assert on.waits(StoreCommits) == 2


def test_without_a_member_commits_of_one_partition_keep_their_order() -> None:
    """Many consumers that assign themselves partitions may use one group id."""
    on = HostedScene()
    on.hold(StoreCommits)
    first, other, second = on.commit(), on.commit(of={"foo": [1]}), on.commit(of={"foo": [0, 2]})
    assert on.waits(StoreCommits) == 2
    on.release(StoreCommits)
    assert [token for token, _ in on.sent] == [*tokens(first), *tokens(other), *tokens(second)]
