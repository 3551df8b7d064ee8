"""The steps of migrations, and their costs."""

from collections.abc import Sequence
from typing import Any

from gateway.pipeline.report.digest import COSTS_MAX, Digest
from gateway.pipeline.report.figures import Step, member_counts, steps, unowned_ms
from tests.support.report_tables import Row, arrival, gap, member, table, tables

UP, DOWN = "classic->consumer", "consumer->classic"


def steps_of(**rows: Sequence[Row]) -> list[Step]:
    """The steps of these tables."""
    made = tables(**rows)
    counted = member_counts(made.timeline)
    return steps(made.changes, made.migrations, made.ownership, made.rebalances, counted)


def shown(steps: Sequence[Step]) -> list[tuple[Any, ...]]:
    """The steps in order."""
    return [
        (
            (step.migration, step.number),
            (step.from_ms, step.to_ms),
            (step.classic_members, step.consumer_members),
            step.unowned_ms,
        )
        for step in steps
    ]


def test_a_gap_counts_without_the_groups_empty_time() -> None:
    """An empty group needs no owners, and a gap without an end has no length."""
    rows = table("ownership", [gap(10, 110, empty_ms=30), gap(200, None)])
    assert [unowned_ms(row) for row in rows] == [70, 0]


ROLL = [
    member("a", "classic", 0, 100),
    member("b", "classic", 0, 200),
    member("c", "consumer", 100, None),
    member("d", "consumer", 200, None),
]
ROLLED = [
    arrival("classic", 0),
    arrival("classic", 0),
    arrival("consumer", 100),
    arrival("consumer", 200),
]


def test_a_step_lasts_from_one_arrival_to_the_next() -> None:
    """The last step lasts to the end of the migration. A member that only changes its state causes
    no step."""
    migrations = [{"direction": UP, "from_ms": 100, "to_ms": 230}]
    stays = arrival("consumer", 210, switched_from="consumer")
    found = steps_of(changes=[*ROLLED, stays], timeline=ROLL, migrations=migrations)
    assert shown(found) == [
        ((1, 1), (100, 200), (1, 1), 0.0),
        ((1, 2), (200, 230), (0, 2), 0.0),
    ]


def test_unowned_time_belongs_to_the_steps_that_it_overlaps() -> None:
    """A gap across two steps is divided, and the group's empty time is deducted proportionally."""
    found = steps_of(
        changes=ROLLED,
        timeline=ROLL,
        migrations=[{"direction": UP, "from_ms": 100, "to_ms": 300}],
        ownership=[
            gap(150, 250, partition=0),
            gap(120, 140, partition=1),
            gap(210, 250, partition=2, empty_ms=20),
            gap(290, 310, partition=3),
            gap(220, None, partition=4),
        ],
    )
    assert [unowned for *_, unowned in shown(found)] == [50 + 20, 50 + 20 + 10]


def test_steps_include_the_whole_cost_of_their_migration() -> None:
    """This includes time before the first new member joined, and after the last old one left."""
    found = steps_of(
        changes=[*ROLLED, arrival("consumer", 320)],
        timeline=ROLL,
        migrations=[
            {"direction": UP, "from_ms": 100, "to_ms": 300, "cost_from_ms": 90, "cost_to_ms": 350}
        ],
        ownership=[gap(80, 110, partition=0), gap(300, 340, partition=1), gap(345, 360)],
    )
    assert [(step[1], step[3]) for step in shown(found)] == [
        ((100, 200), 20),
        ((200, 320), 20),
        ((320, 350), 20 + 5),
    ]


def test_each_migration_has_its_own_steps() -> None:
    """On the way back, members join with the classic protocol. A migration in progress has no
    end."""
    changes = [*ROLLED, arrival("classic", 500)]
    migrations = [
        {"direction": UP, "from_ms": 100, "to_ms": 200},
        {"direction": DOWN, "from_ms": 500, "to_ms": None},
    ]
    found = steps_of(changes=changes, timeline=ROLL, migrations=migrations)
    assert [step[:2] for step in shown(found)] == [
        ((1, 1), (100, 200)),
        ((1, 2), (200, 200)),
        ((2, 1), (500, None)),
    ]


def test_a_member_that_switches_back_under_its_id_causes_a_step() -> None:
    """Its earlier use of that protocol does not matter."""
    changes = [
        arrival("classic", 0),
        arrival("classic", 0),
        arrival("consumer", 100, switched_from="classic"),
        arrival("classic", 200, switched_from="consumer"),
    ]
    timeline = [
        member("a", "classic", 0, None),
        member("m", "classic", 0, 100),
        member("m", "consumer", 100, 200),
        member("m", "classic", 200, None),
    ]
    migrations = [
        {"direction": UP, "from_ms": 100, "to_ms": 150},
        {"direction": DOWN, "from_ms": 150, "to_ms": 200},
    ]
    found = steps_of(changes=changes, timeline=timeline, migrations=migrations)
    assert [step[:3] for step in shown(found)] == [
        ((1, 1), (100, 150), (1, 1)),
        ((2, 1), (200, 200), (2, 0)),
    ]


def test_arrivals_in_one_millisecond_are_one_step() -> None:
    """Their costs could not be separated."""
    changes = [arrival("consumer", 100), arrival("consumer", 100)]
    timeline = [member("c", "consumer", 100, None), member("d", "consumer", 100, None)]
    migrations = [{"direction": UP, "from_ms": 100, "to_ms": 230}]
    found = steps_of(changes=changes, timeline=timeline, migrations=migrations)
    assert [step[:3] for step in shown(found)] == [((1, 1), (100, 230), (0, 2))]


def test_costs_are_summed_by_the_number_of_the_step() -> None:
    """The sums cover all groups. Steps beyond the limit are counted."""
    long = COSTS_MAX + 6
    digests = [Digest(top=1), Digest(top=1)]
    for digest, number in zip(digests, (long, 1), strict=True):
        times = [100 * n for n in range(1, number + 1)]
        digest.add(
            ("", "g"),
            tables(
                changes=[arrival("consumer", at_ms) for at_ms in times],
                migrations=[{"direction": UP, "from_ms": 100, "to_ms": 100 * number + 50}],
                ownership=[gap(100, 100 + 10 * number)],
            ),
        )
    digests[0].merge(digests[1])
    found, left_out = digests[0].step_costs()
    assert (len(found), left_out) == (COSTS_MAX, 6)
    first = found[0]
    assert (first.number, first.steps) == (1, 2)
    assert (first.unowned_partition_s, first.unowned_partition_s_most) == (0.11, 0.1)
    assert Digest(top=1).step_costs() == ((), 0)


def test_a_step_names_its_clients_and_has_its_rebalances() -> None:
    """The names are those that operators know; the same client may leave with one protocol and
    arrive with the other."""
    leaves = {"is_present": False, "was_present": True, "protocol_before": "classic"}
    changes = [
        {**arrival("classic", 0), "member_id": "x-1", "client_id": "x"},
        {**arrival("classic", 0), "member_id": "y-1", "instance_id": "seat"},
        {**leaves, "at_ms": 90, "member_id": "x-1"},
        {**arrival("consumer", 100), "member_id": "x-2", "client_id": "x"},
        {**leaves, "at_ms": 190, "member_id": "y-1", "instance_id": "seat"},
        {**arrival("consumer", 200), "member_id": "z-1"},
    ]
    found = steps_of(
        changes=changes,
        timeline=ROLL,
        migrations=[{"direction": UP, "from_ms": 100, "to_ms": 230, "cost_from_ms": 90}],
        rebalances=[{"from_ms": at_ms} for at_ms in (0, 90, 100, 200, 300)],
    )
    assert [(step.left, step.names, step.rebalances_ms) for step in found] == [
        (("x",), ("x",), (90, 100)),
        (("seat",), ("z-1",), (200,)),
    ]
