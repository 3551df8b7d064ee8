"""Offset requests to a consumer group (rule 3.15); see scenarios 68 to 70."""

from collections.abc import Callable, Sequence

import pytest

from coordinator.interface.records import Assignment
from coordinator.interface.replies import OffsetReply
from coordinator.interface.topics import Topic, Topics
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import GivenMember, given_classic, given_native
from tests.support.group_script import GroupScript, Owned, partitions
from tests.support.group_values import make_topics, topic_id

FOO_0 = {"foo": (0,)}
(P0,), (P1,) = partitions(FOO_0), partitions({"foo": (1,)})
CURRENT = Assignment(member_epoch=9, previous_epoch=8, assigned={P0: 5}, pending_revocation={P1: 7})


@pytest.mark.parametrize(
    ("epoch", "owned", "is_covered"),
    [
        (9, {"foo": (0, 1, 2)}, True),
        (10, FOO_0, False),
        (5, FOO_0, True),
        (4, FOO_0, False),
        (6, {"foo": (0, 1)}, False),
        (7, {"foo": (0, 1)}, True),
        (8, {"foo": (2,)}, False),
        (8, {}, True),
    ],
)
def test_an_older_epoch_covers_partitions_held_since_then(
    epoch: int, owned: Owned, is_covered: bool
) -> None:
    """The partitions may be assigned or pending revocation. One that was not held fails the
    commit."""
    assert CURRENT.covers(epoch, partitions(owned)) is is_covered


def test_a_commit_of_the_instance_that_a_member_was_before_is_refused(group: GroupScript) -> None:
    """DEV D68: it repeats a commit from before the member left and came back in the same epoch, and
    would set the offset first ahead and then back (truth seed 1573487)."""
    held = {"foo": (0,)}
    group.given_consumer_group(
        given_native("n1", instance_id="i1", assigned=held),
        given_native("n2", assigned={"foo": (1, 2)}),
    )
    epoch = group.current("n1").member_epoch
    group.native("n1", -2, instance_id="i1")
    assert group.native("n1", instance_id="i2").member_epoch == epoch
    _, late = group.commit("n1", epoch, held, instance_id="i1")
    assert late.error is ErrorCode.STALE_MEMBER_EPOCH
    _, own = group.commit("n1", epoch, held, instance_id="i2")
    assert own.error is ErrorCode.NONE


def test_an_empty_group_accepts_commits_without_epoch(group: GroupScript) -> None:
    """Admin tools and consumers that use assign() send them."""
    group.native("n1")
    assert group.commit("", -1, FOO_0)[1].error == ErrorCode.UNKNOWN_MEMBER_ID
    group.native("n1", -1)
    assert group.commit("", -1, FOO_0)[1].error == ErrorCode.NONE
    assert group.commit("n1", 2, FOO_0)[1].error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.commit("n1", 0, FOO_0)[1].error == ErrorCode.UNKNOWN_MEMBER_ID


RECREATED = Topic(name="foo", topic_id=topic_id("foo, created again"), partition_count=1)


@pytest.mark.parametrize("member", [given_native, given_classic])
@pytest.mark.parametrize("foo", [(), (RECREATED,)], ids=["gone", "created again"])
def test_a_last_commit_for_a_deleted_topic_is_not_stored(
    group: GroupScript, member: Callable[..., GivenMember], foo: Sequence[Topic]
) -> None:
    """The recreated topic of the same name does not get it, while the member has not given up the
    old topic. The commit's other partitions are stored."""
    group.topics = make_topics(foo=1, bar=1)
    owned = {"foo": (0,), "bar": (0,)}
    group.given_consumer_group(member("m", assigned=owned))
    bar = make_topics(bar=1).by_name["bar"]
    group.topics = Topics({topic.name: topic for topic in (bar, *foo)}, version=2)
    token, verdict = group.commit("m", 10, owned)
    assert verdict == OffsetReply(gone=frozenset({"foo"}))
    assert group.engine.state.commits[token].partitions == partitions({"bar": (0,)})


def test_an_unheld_topic_does_not_count_as_deleted(group: GroupScript) -> None:
    """A member may commit any partition at its own epoch (rule 3.15)."""
    group.topics = make_topics(foo=1, bar=1)
    group.given_consumer_group(given_native("m", assigned=FOO_0))
    _token, verdict = group.commit("m", 10, {"foo": (0,), "bar": (0,), "unknown": (0,)})
    assert verdict.gone == frozenset()


def test_transactions(group: GroupScript) -> None:
    """Transactions pass without group metadata (KAFKA-18060), in any version."""
    group.given_consumer_group(given_native("n1", assigned=FOO_0))
    errors = [
        group.commit("", -1, FOO_0, is_transactional=True)[1].error,
        group.commit("n1", 10, FOO_0, is_transactional=True, version=3)[1].error,
    ]
    assert errors == [ErrorCode.NONE, ErrorCode.NONE]


@pytest.mark.parametrize(
    ("member", "version", "error"),
    [
        (given_native, 5, ErrorCode.ILLEGAL_GENERATION),
        (given_native, 6, ErrorCode.STALE_MEMBER_EPOCH),
        (given_classic, 5, ErrorCode.ILLEGAL_GENERATION),
        (given_classic, 6, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_a_stale_transaction_is_refused_with_a_code_of_its_version(
    group: GroupScript, member: Callable[..., GivenMember], version: int, error: ErrorCode
) -> None:
    """A classic member knows only generations."""
    group.given_consumer_group(member("m", assigned=FOO_0))
    stale = group.commit("m", 9, FOO_0, is_transactional=True, version=version)[1]
    assert stale.error == error


def test_a_fetch_without_a_member_or_with_a_valid_epoch_is_accepted(group: GroupScript) -> None:
    """All other fetches are refused."""
    group.given_consumer_group(given_native("n1"), given_classic("c1"))
    assert group.fetch().error == ErrorCode.NONE
    assert group.fetch("n1", 10).error == ErrorCode.NONE
    assert group.fetch("c1", 10).error == ErrorCode.NONE
    assert group.fetch("n9", 10).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.fetch("n1", 11).error == ErrorCode.STALE_MEMBER_EPOCH


BOTH = {"foo": (0,), "bar": (0,)}


def test_a_fetch_with_an_older_epoch_needs_partitions_held_since_then(
    make_group: MakeGroup,
) -> None:
    """DEV D80: like a commit. All partitions at once need the member's own epoch."""
    group = make_group(topics=make_topics(foo=1, bar=1))
    group.given_consumer_group(given_native("n1", assigned=FOO_0))
    group.native("n1", 10, topics=BOTH)
    assert group.current("n1").member_epoch == 11
    wanted: list[tuple[int, Owned | None]]
    wanted = [(10, FOO_0), (11, BOTH), (11, None), (10, BOTH), (10, None), (9, FOO_0), (12, FOO_0)]
    errors = [group.fetch("n1", epoch, of).error for epoch, of in wanted]
    assert errors == [ErrorCode.NONE] * 3 + [ErrorCode.STALE_MEMBER_EPOCH] * 4


def test_a_classic_member_may_fetch_with_an_older_generation(make_group: MakeGroup) -> None:
    """DEV D80: what it has held since then, as a native member may."""
    group = make_group(topics=make_topics(foo=1, bar=1))
    group.given_consumer_group(given_classic("c1", assigned=FOO_0), given_native("n1", topics=()))
    group.join("c1", topics=BOTH, owned=FOO_0, generation=10)
    assert group.current("c1").member_epoch == 11
    errors = [group.fetch("c1", 10, of).error for of in (FOO_0, BOTH)]
    assert errors == [ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION]


def test_a_partition_that_another_member_had_is_not_fetched_with_the_epoch_before(
    make_group: MakeGroup,
) -> None:
    """DEV D80: the other member may have committed it."""
    group = make_group(topics=make_topics(foo=2))
    group.given_consumer_group(given_native("n1", assigned={"foo": (0, 1)}))
    group.native("n2")
    group.native("n1", 10)
    (lent,) = group.current("n1").pending_revocation
    own = {"foo": (1 - lent.number,)}
    group.native("n1", 10, owned=own)
    group.native("n2", 11)
    assert group.consumer.holders[lent] == "n2"
    group.native("n2", -1)
    group.wait(1_000)
    group.native("n1", 11)
    assert group.consumer.holders[lent] == "n1"
    errors = [group.fetch("n1", 10, of).error for of in (own, {"foo": (lent.number,)})]
    assert errors == [ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH]


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, ErrorCode.NONE),
        (None, 0, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 10, ErrorCode.UNKNOWN_MEMBER_ID),
        ("n9", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("n1", -1, ErrorCode.STALE_MEMBER_EPOCH),
        ("n1", 0, ErrorCode.STALE_MEMBER_EPOCH),
        ("c1", -1, ErrorCode.NONE),
        ("c1", 0, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_which_fetches_name_a_member(
    group: GroupScript, member_id: str | None, epoch: int, error: ErrorCode
) -> None:
    """A fetch without member and epoch is not checked. DEV D28: a classic member may omit its
    epoch."""
    group.given_consumer_group(given_native("n1"), given_classic("c1"))
    assert group.fetch(member_id, epoch).error == error


@pytest.mark.parametrize(
    ("member_id", "instance_id", "epoch", "error"),
    [
        ("", None, -1, ErrorCode.NONE),
        ("", None, 0, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "i1", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("n9", None, -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("n1", None, -1, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_which_transactions_name_a_member(
    group: GroupScript, member_id: str, instance_id: str | None, epoch: int, error: ErrorCode
) -> None:
    """One with any data of its consumer is checked (KIP-447)."""
    group.given_consumer_group(given_native("n1", assigned=FOO_0, instance_id="i1"))
    how = {"instance_id": instance_id, "is_transactional": True, "version": 5}
    assert group.commit(member_id, epoch, FOO_0, **how)[1].error == error
