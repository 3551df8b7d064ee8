"""What is wrong with a target that was computed outside the engine (rule 9.6)."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.assignors import ASSIGNORS, Target
from coordinator.assignors.target_validation import flaw_in
from coordinator.interface.topics import Partition, Topics
from coordinator.interface.volatile_records import Computation, Subscriber
from tests.support.assignor_strategies import Case, cases
from tests.support.group_script import make_topics, partitions, topic_id
from tests.support.hypothesis_profile import examples

TOPICS = make_topics(foo=2, bar=1)
BOTH = frozenset({topic_id("foo"), topic_id("bar")})
COMPUTATION = Computation(
    epoch=7,
    assignor="plug-in",
    members={
        "m1": Subscriber(instance_id=None, topic_ids=BOTH),
        "m2": Subscriber(instance_id=None, topic_ids=frozenset({topic_id("foo")})),
    },
    partition_counts={topic_id("foo"): 2, topic_id("bar"): 1},
    target={"m1": partitions({"foo": (0, 1), "bar": (0,)})},
)


def flaw(**changed: frozenset[Partition]) -> str:
    return flaw_in(changed, COMPUTATION, TOPICS)


def test_the_old_target_and_a_move_are_right() -> None:
    """Members that the result omits keep theirs."""
    assert flaw() == ""
    assert flaw(m1=partitions({"foo": (1,), "bar": (0,)}), m2=partitions({"foo": (0,)})) == ""


def test_each_flaw_is_named() -> None:
    """The names are for the authors of the assignor."""
    assert flaw(m2=partitions({"foo": (0,)})) == ("the partition foo-0 went to both 'm1' and 'm2'")
    assert flaw(m1=partitions({"foo": (0, 1)})) == "the partition bar-0 was assigned to no member"
    assert flaw(m2=partitions({"bar": (0,)})) == "'m2' does not subscribe to the topic bar"
    assert flaw(m2=partitions({"foo": (-1,)})) == "there is no partition foo--1"
    assert flaw(m3=frozenset(), m4=frozenset()) == "'m3' is not a member of the group"


def test_an_unknown_topic_has_only_an_id() -> None:
    """Nobody subscribes to one that does not exist."""
    stranger = topic_id("who")
    assert flaw(m2=frozenset({Partition(stranger, 0)})) == (
        f"'m2' does not subscribe to the topic {stranger}"
    )


def test_an_old_target_that_has_become_wrong_must_be_changed() -> None:
    """A topic shrank, for example: it was recreated under its id."""
    smaller = replace(COMPUTATION, partition_counts={topic_id("foo"): 1, topic_id("bar"): 1})
    assert flaw_in({}, smaller, TOPICS) == "there is no partition foo-1"


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=examples(100))
@given(data=st.data())
def test_our_own_assignors_have_no_flaw(name: str, data: st.DataObject) -> None:
    """Their result has none after any single change that matters, either."""
    case: Case = data.draw(cases())
    spec = case.spec
    computation = Computation(
        epoch=1,
        assignor=name,
        members=case.members,
        partition_counts={id_: spec.partition_counts[id_] for id_ in spec.subscriber_counts},
        target=spec.target,
    )
    target: Target = case.assigned_by(ASSIGNORS[name])
    assert flaw_in(target, computation, Topics()) == ""
    if not case.subscribed_partitions:
        return
    lost = data.draw(st.sampled_from(sorted(case.subscribed_partitions)))
    assert flaw_in({i: share - {lost} for i, share in target.items()}, computation, Topics())
