"""Reconciliation of one member with its target (rule 3.7)."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.consumer.reconcile import Goal, reconcile
from coordinator.interface.records import Assignment, MemberState
from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import DeadlineKind
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import (
    GivenMember,
    given_classic,
    given_classic_group_member,
    given_native,
)
from tests.support.group_script import GroupScript, make_topics
from tests.support.group_values import topic_id

FOO, BAR = topic_id("foo"), topic_id("bar")
ALL = [Partition(id_, number) for id_ in (FOO, BAR) for number in range(3)]
subsets = st.frozensets(st.sampled_from(ALL))


@st.composite
def currents(draw: st.DrawFn) -> Assignment:
    """Any assignment of a member at assignment epoch 7."""
    state = draw(st.sampled_from(MemberState))
    assigned = draw(subsets)
    pending = frozenset[Partition]()
    if state is MemberState.UNREVOKED_PARTITIONS:
        pending = draw(subsets) - assigned
    epoch = draw(st.integers(3, 7))
    return Assignment(
        member_epoch=epoch,
        previous_epoch=draw(st.integers(2, epoch)),
        state=state,
        assigned=dict.fromkeys(assigned, 3),
        pending_revocation=dict.fromkeys(pending, 3),
    )


@st.composite
def goals(draw: st.DrawFn) -> Goal:
    """Any target, owned partitions of the client, and partitions held by others."""
    taken = draw(subsets)
    return Goal(
        target=draw(subsets),
        assignment_epoch=7,
        topic_ids=draw(st.frozensets(st.sampled_from([FOO, BAR]))),
        owned=draw(st.none() | subsets),
        is_free=lambda partition: partition not in taken,
    )


def partitions_of(current: Assignment) -> set[Partition]:
    return {*current.assigned, *current.pending_revocation}


@given(currents(), goals(), st.booleans())
def test_only_free_partitions_are_granted(
    current: Assignment, goal: Goal, subscription_changed: bool
) -> None:
    """New partitions were free, and each partition is held once."""
    after = reconcile(current, goal, subscription_changed=subscription_changed)
    assert all(
        goal.is_free(partition) for partition in after.assigned.keys() - partitions_of(current)
    )
    assert all(
        goal.is_free(partition) for partition in after.assigned.keys() - current.assigned.keys()
    )
    assert after.assigned.keys().isdisjoint(after.pending_revocation)


@given(currents(), goals(), st.booleans())
def test_a_partition_that_a_client_still_owns_stays_held(
    current: Assignment, goal: Goal, subscription_changed: bool
) -> None:
    """The group releases a partition only after the client has stated that it no longer owns it."""
    after = reconcile(current, goal, subscription_changed=subscription_changed)
    let_go = partitions_of(current) - partitions_of(after)
    if goal.owned is None:
        assert not let_go
    else:
        assert let_go.isdisjoint(goal.owned)


@given(currents(), goals(), st.booleans())
def test_revocations_precede_acquisitions(
    current: Assignment, goal: Goal, subscription_changed: bool
) -> None:
    """A member that has partitions to revoke keeps its epoch and gains nothing."""
    after = reconcile(current, goal, subscription_changed=subscription_changed)
    if after.state is MemberState.UNREVOKED_PARTITIONS:
        assert after.member_epoch == current.member_epoch
        assert after.assigned.keys() <= current.assigned.keys()
        assert partitions_of(after) <= partitions_of(current)
    else:
        assert not after.pending_revocation or after == current


@given(currents(), goals())
def test_an_advance_keeps_and_grants_target_partitions(current: Assignment, goal: Goal) -> None:
    """At the target's epoch the member has the target partitions that it had, and those that are
    free. It is Stable, or waits for the others."""
    after = reconcile(current, goal, subscription_changed=False)
    if after.member_epoch != goal.assignment_epoch or after is current:
        return
    if after.state is MemberState.UNREVOKED_PARTITIONS:
        return
    target = {p for p in goal.target if p.topic_id in goal.topic_ids}
    keep = {p: epoch for p, epoch in current.assigned.items() if p in target}
    give = {p: 7 for p in target - keep.keys() if goal.is_free(p)}
    assert after.assigned == {**keep, **give}
    is_complete = after.assigned.keys() == target
    assert (after.state is MemberState.STABLE) is is_complete
    assert after.previous_epoch == current.member_epoch


@given(currents(), goals(), st.booleans())
def test_epochs_only_grow(current: Assignment, goal: Goal, subscription_changed: bool) -> None:
    """No epoch exceeds that of the target. The previous epoch admits a member whose answer was lost
    (rule 3.4)."""
    after = reconcile(current, goal, subscription_changed=subscription_changed)
    assert current.member_epoch <= after.member_epoch <= goal.assignment_epoch
    assert after is current or after.previous_epoch == current.member_epoch


@given(currents(), goals())
def test_a_member_that_cannot_advance_is_unchanged(current: Assignment, goal: Goal) -> None:
    """At the target, or before it has revoked, only a changed subscription trims the assignment."""
    after = reconcile(current, goal, subscription_changed=False)
    at_target = current.state is MemberState.STABLE and current.member_epoch == 7
    waits = current.state is MemberState.UNREVOKED_PARTITIONS and goal.owned is None
    if at_target or waits:
        assert after is current


@given(currents(), goals())
def test_an_unsubscribed_topic_is_revoked_at_once(current: Assignment, goal: Goal) -> None:
    """No answer contains a topic that the member has just unsubscribed (KAFKA-19431)."""
    after = reconcile(current, goal, subscription_changed=True)
    assert {partition.topic_id for partition in after.assigned} <= goal.topic_ids


@given(currents(), subsets)
def test_a_member_that_follows_the_protocol_reaches_its_target(
    current: Assignment, target: frozenset[Partition]
) -> None:
    """At most two rounds are needed if no other member holds the partitions: revoke, then
    acquire."""
    for _ in range(3):
        goal = Goal(
            target=target,
            assignment_epoch=7,
            topic_ids=frozenset({FOO, BAR}),
            owned=frozenset(current.assigned),
            is_free=lambda _: True,
        )
        current = reconcile(current, goal, subscription_changed=False)
    assert current.member_epoch == 7
    assert current.state is MemberState.STABLE


def test_a_partition_moves_only_after_it_is_given_up(group: GroupScript) -> None:
    """A revoked partition is free only once its old owner no longer states it."""
    group.given_consumer_group(
        given_native("a", assigned={"foo": (0, 1)}, target={"foo": (0,)}),
        given_native("b", target={"foo": (1,)}),
        epoch=11,
    )
    assert group.native("b", 10, owned={}).member_epoch == 11
    assert group.current("b").state is MemberState.UNRELEASED_PARTITIONS
    reply = group.native("a", 10, owned={"foo": (0, 1)})
    assert reply.member_epoch == 10
    assert group.names_of(reply.assignment) == {"foo": (0,)}
    assert group.native("b", 11).assignment is None
    assert group.native("a", 10).member_epoch == 10  # the heartbeat does not state owned partitions
    assert group.native("a", 10, owned={"foo": (0,)}).member_epoch == 11
    reply = group.native("b", 11)
    assert reply.member_epoch == 11
    assert group.names_of(reply.assignment) == {"foo": (1,)}
    assert group.view().state == "Stable"


def test_a_commit_in_flight_holds_its_partitions(group: GroupScript) -> None:
    """A new owner could start before that commit."""
    group.given_consumer_group(
        given_native("a", assigned={"foo": (0,)}, target={}),
        given_native("b", target={"foo": (0,)}),
        epoch=11,
    )
    commit, _ = group.commit("a", 10, {"foo": (0,)})
    group.native("a", 10, owned={"foo": (0,)})
    group.native("a", 10, owned={})
    assert group.native("b", 10, owned={}).member_epoch == 11
    assert group.granted_partitions("b") == {}
    group.commit_answered(commit, lost=True)
    assert group.native("b", 11).assignment is None
    group.wait(group.config.lost_commit_hold_ms or 0)
    assert group.names_of(group.native("b", 11).assignment) == {"foo": (0,)}


def test_the_revocation_deadline_starts_with_the_revocation(group: GroupScript) -> None:
    """A heartbeat does not move the deadline, and the advance ends it."""
    group.given_consumer_group(
        given_native("a", assigned={"foo": (0, 1)}, target={"foo": (0,)}), epoch=11
    )
    group.native("a", 10, owned={"foo": (0, 1)})
    assert group.left_ms(DeadlineKind.REVOCATION, "a") == 10_000
    group.wait(4_000)
    group.native("a", 10, owned={"foo": (0, 1)})
    assert group.left_ms(DeadlineKind.REVOCATION, "a") == 6_000
    group.native("a", 10, owned={"foo": (0,)})
    assert group.left_ms(DeadlineKind.REVOCATION, "a") is None


def test_a_member_rejoins_only_when_all_awaited_partitions_are_free(group: GroupScript) -> None:
    """Some free partitions are no reason to rejoin, but a rejoin for another reason takes them
    (rule 5.7)."""
    group.given_consumer_group(
        given_classic("c", target={"foo": (0, 1)}, state=MemberState.UNRELEASED_PARTITIONS),
        given_native("n", assigned={"foo": (1,)}, target={}),
    )
    assert group.beat("c", 10).error == ErrorCode.NONE
    group.join("c")
    assert group.granted_partitions("c") == {"foo": (0,)}


@pytest.mark.parametrize(("given", "left_ms"), [(given_native, 10_000), (given_classic, 6_000)])
def test_a_further_revocation_extends_the_deadline_of_native_members_only(
    make_group: MakeGroup, given: Callable[..., GivenMember], left_ms: int
) -> None:
    """Each further revocation of a native member restarts its deadline (rule 3.12). DEV D4: a
    classic member could otherwise extend it for ever by unsubscribing topic after topic."""
    group = make_group(topics=make_topics(foo=2, bar=1))
    both = {"foo": (0, 1), "bar": (0,)}
    m1 = given("m1", topics=("foo", "bar"), assigned=both, target={"foo": (0,), "bar": (0,)})
    group.given_consumer_group(m1, given_native("n1"), epoch=11)

    def speak(*topics: str) -> None:
        if m1.classic is None:
            group.native("m1", 10, topics=topics, owned=both)
        else:
            group.join("m1", topics=topics, owned=both)

    speak("foo", "bar")
    group.wait(4_000)
    speak("foo")
    assert group.names_of(group.current("m1").pending_revocation) == {"foo": (1,), "bar": (0,)}
    assert group.left_ms(DeadlineKind.REVOCATION, "m1") == left_ms


@pytest.mark.parametrize(
    ("committer", "error"),
    [("c1", ErrorCode.REBALANCE_IN_PROGRESS), ("n1", ErrorCode.NONE)],
)
def test_a_member_does_not_wait_for_its_own_commit(
    group: GroupScript, committer: str, error: ErrorCode
) -> None:
    """A commit in flight blocks other members, not its committer."""
    group.given_consumer_group(
        given_classic("c1", target={"foo": (0,)}, state=MemberState.UNRELEASED_PARTITIONS),
        given_native("n1", pending={"foo": (0,)}, state=MemberState.UNREVOKED_PARTITIONS),
    )
    group.commit(committer, 10, {"foo": (0,)})
    group.native("n1", 10, owned={})
    assert group.beat("c1", 10).error == error


def test_a_member_that_joins_at_epoch_0_has_an_assignment(group: GroupScript) -> None:
    """The group was converted at generation 0, and the member subscribes to nothing, so its join
    bumps no epoch. Its assignment is empty, with epoch 0."""
    group.given_classic_group(given_classic_group_member("c1", {"foo": (0, 1, 2)}), generation=0)
    assert group.native("n1", topics=()).member_epoch == 0
    assert group.current("n1") == Assignment(member_epoch=0, previous_epoch=0)
    assert group.native("n1").error == ErrorCode.NONE
