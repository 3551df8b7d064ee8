"""What the steps of a roll cost the other members of a group of eager consumers (rules 5.11, 9.4).

Eight consumers share 48 partitions and are restarted one after another, to the new protocol and
back. Their slots are not kept: the gap is longer than a grace.
"""

import pytest

from coordinator.interface.config import GroupConfig
from coordinator.interface.records import EpochCause, GroupEpoch
from tests.coordinator.conftest import MakeGroup
from tests.coordinator.scenarios.rolled_group import Cost, RolledGroup
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import make_topics

NAMES = [f"c{n}" for n in range(8)]
LIKE_KAFKA = GroupConfig(classic_initial_rebalance_delay_ms=0)
EVEN = 6
LEAST, MOST = 3, 10
"""Half of the even share of eight members, and half as much again as that of seven, which is 7."""


def sparing(assignor: str = "uniform") -> GroupConfig:
    return GroupConfig(
        classic_initial_rebalance_delay_ms=0,
        consumer_assignors=(assignor,),
        consumer_assignment_interval_ms=0,
        unaffected_members_rejoin=False,
        eager_imbalance_percent=50,
    )


def start_group(make_group: MakeGroup, config: GroupConfig) -> RolledGroup:
    group = RolledGroup(make_group(config=config, topics=make_topics(foo=48)))
    for name in NAMES:
        group.start(name, is_native=False)
    group.settle()
    return group


def eager_of(group: RolledGroup, cost: Cost) -> set[str]:
    return {name for name in cost.disturbed if not group.consumers[name].is_native}


def test_in_kafka_each_step_disturbs_every_eager_member(make_group: MakeGroup) -> None:
    """Each target makes all of them rejoin, whatever it takes from them."""
    group = start_group(make_group, LIKE_KAFKA)
    for done, name in enumerate(NAMES, 1):
        cost = group.restart(name, is_native=True, gap_s=5)
        assert eager_of(group, cost) == set(NAMES[done:])


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_roll_disturbs_eager_members_only_while_few_are_native(
    make_group: MakeGroup, assignor: str
) -> None:
    """A member that leaves a classic group makes it rebalance, and so does the last native member.
    A single native member cannot take over a whole share of another."""
    group = start_group(make_group, sparing(assignor))
    for done, name in enumerate(NAMES, 1):
        cost = group.restart(name, is_native=True, gap_s=5)
        assert done == 1 or eager_of(group, cost) == set()
        assert done == 8 or group.loads()[0] >= LEAST
        assert group.loads()[-1] <= MOST
    assert group.loads() == [EVEN] * 8
    for done, name in enumerate(NAMES, 1):
        cost = group.restart(name, is_native=False, gap_s=5)
        assert len(eager_of(group, cost)) <= (7 if done == 8 else 1 if done == 7 else 0)
        assert LEAST <= group.loads()[0] <= group.loads()[-1] <= MOST
    assert group.loads() == [EVEN] * 8


def test_a_member_that_rejoins_anyway_gets_its_even_share(make_group: MakeGroup) -> None:
    """The member has given up what it had. Who does not rejoin is spared."""
    group = make_group(config=sparing(), topics=make_topics(foo=12))
    group.given_consumer_group(
        given_classic("c1", assigned={"foo": range(6)}),
        given_classic("c2", assigned={"foo": range(6, 9)}),
        given_native("n1", assigned={"foo": range(9, 12)}),
        epoch=11,
        assignment_epoch=10,
    )
    group.join("c1", owned={})
    targets = {id_: len(share) for id_, share in group.consumer.targets.items()}
    assert targets == {"c1": 5, "c2": 3, "n1": 4}


def test_a_group_that_becomes_native_is_even_again(make_group: MakeGroup) -> None:
    """The last eager member is static. When it switches, nothing else needs a new target."""
    group = make_group(config=sparing(), topics=make_topics(foo=8))
    group.given_consumer_group(
        given_classic("c1", instance_id="i1", assigned={"foo": range(4)}),
        given_native("n1", assigned={"foo": range(4, 8)}),
    )
    group.native("n2")
    assert [len(group.consumer.target_of(id_)) for id_ in ("c1", "n1", "n2")] == [4, 2, 2]
    group.native("n3", instance_id="i1")
    causes = [record.cause for record in group.last_step.records if isinstance(record, GroupEpoch)]
    assert causes == [EpochCause.LOADS_UNEVEN]
    assert sorted(len(share) for share in group.consumer.targets.values()) == [2, 3, 3]


def test_an_uneven_group_rebalances_when_it_becomes_classic(make_group: MakeGroup) -> None:
    """An even group is downgraded without one by a static replacement (rule 6.2)."""
    group = make_group(config=sparing(), topics=make_topics(foo=8))
    group.given_consumer_group(
        given_classic("c1", assigned={"foo": range(5)}),
        given_native("n1", instance_id="i1", assigned={"foo": range(5, 8)}),
    )
    group.topics = make_topics(2, foo=9)
    group.native("n1", 10, instance_id="i1")
    group.topics = make_topics(3, foo=8)
    group.native("n1", 11, instance_id="i1")
    group.native("n1", 11, instance_id="i1", owned={"foo": range(5, 8)})
    group.join("c1", owned={"foo": range(5)})
    group.sync_assignment("c1", group.consumer.epoch)
    assert group.view().state == "Stable"
    group.send_join(instance_id="i1")
    assert group.view().group_type == "classic"
    assert group.view().state == "PreparingRebalance"
