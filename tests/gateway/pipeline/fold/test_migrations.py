"""Migrations from one protocol to the other: forth, back, abandoned, and through an empty group."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pytest

from coordinator.interface.records import RemovalCause
from gateway.events.event import GatewayEvent
from gateway.events.group_events import Direction, GroupConverted, GroupCreated, StepMadeWorse
from gateway.events.member_events import (
    GrantEnded,
    MemberJoined,
    MemberLeft,
    PartitionsAssigned,
    Protocol,
)
from gateway.pipeline.fold.migrations import MigrationRow
from tests.support.event_writer import START_MS, EventWriter, WriteHistory, lines_of, seconds
from tests.support.folded_lines import folded
from tests.support.group_events import EMPTY, PREPARING, STABLE, bump, group_goes, target
from tests.support.simulated_events import SimulatedStep, undisturbed
from tests.support.simulated_lines import write

UP: Direction = "classic->consumer"
DOWN: Direction = "consumer->classic"


def joins(member_id: str, protocol: Protocol) -> GatewayEvent:
    return MemberJoined(
        member_id=member_id, client_id="c", client_host="/h", instance_id=None, protocol=protocol
    )


def leaves(member_id: str) -> GatewayEvent:
    return MemberLeft(member_id=member_id, cause=RemovalCause.LEFT)


def up() -> GatewayEvent:
    return GroupConverted(direction=UP, is_live=True, group_epoch=1, members=1, cause="n joined")


def down() -> GatewayEvent:
    return GroupConverted(direction=DOWN, is_live=True, generation=2, members=1, cause="n left")


def gets(member_id: str) -> GatewayEvent:
    return PartitionsAssigned(member_id=member_id, member_epoch=1, partitions={"t": (0, 1)})


def part(member_id: str, number: int) -> GatewayEvent:
    return PartitionsAssigned(member_id=member_id, member_epoch=1, partitions={"t": (number,)})


def part_back(member_id: str, number: int) -> GatewayEvent:
    return GrantEnded(
        cause="revoked", member_id=member_id, member_epoch=1, partitions={"t": (number,)}
    )


def gives(member_id: str) -> GatewayEvent:
    return GrantEnded(
        cause="revoked", member_id=member_id, member_epoch=1, partitions={"t": (0, 1)}
    )


def there(writer: EventWriter) -> None:
    """Two members migrate one after the other. For three seconds two partitions had no owner."""
    writer.tell(1, GroupCreated(kind="classic"), joins("a", "classic"), joins("b", "classic"))
    writer.tell(1, gets("a"))
    writer.tell(10, gives("a"), leaves("a"))
    writer.tell(12, up(), joins("n", "consumer"))
    writer.tell(13, gets("n"))
    writer.tell(14, gives("n"))
    writer.tell(17, gets("n"))
    writer.tell(20, leaves("b"), joins("m", "consumer"))


def and_back(writer: EventWriter) -> None:
    """Each direction is a migration of its own."""
    writer.tell(1, GroupCreated(kind="classic"), joins("a", "classic"), joins("b", "classic"))
    writer.tell(2, up(), joins("n", "consumer"))
    writer.tell(3, leaves("a"))
    writer.tell(4, leaves("b"))
    writer.tell(8, joins("c", "classic"))
    writer.tell(9, leaves("n"), down())


def given_up(writer: EventWriter) -> None:
    """The only native member leaves again."""
    writer.tell(1, GroupCreated(kind="classic"), joins("a", "classic"))
    writer.tell(2, up(), joins("n", "consumer"))
    writer.tell(5, leaves("n"), down())


def not_yet(writer: EventWriter) -> None:
    """The group is still mixed."""
    writer.tell(1, GroupCreated(kind="classic"), joins("a", "classic"))
    writer.tell(2, up(), joins("n", "consumer"))


def while_empty(writer: EventWriter) -> None:
    """The last classic member leaves before the first native one joins."""
    writer.tell(1, GroupCreated(kind="classic"), joins("a", "classic"))
    writer.tell(3, leaves("a"))
    writer.tell(7, up(), joins("n", "consumer"))


def none(writer: EventWriter) -> None:
    """Members come and go, and the protocol stays."""
    writer.tell(1, GroupCreated(kind="classic"), joins("a", "classic"))
    writer.tell(3, leaves("a"))
    writer.tell(7, joins("b", "classic"))


def rolled(writer: EventWriter) -> None:
    """Members are replaced one by one: each leaves, and another joins a second later. The cost
    includes the first second, and the time that the last member's partitions waited, but nothing
    more."""
    writer.tell(0, GroupCreated(kind="classic"), joins("a", "classic"), joins("b", "classic"))
    writer.tell(1, group_goes(EMPTY, STABLE), part("a", 0), part("b", 1))
    writer.tell(10, part_back("a", 0), leaves("a"), group_goes(STABLE, PREPARING))
    writer.tell(11, up(), joins("n", "consumer"), bump(2), target(2), part("n", 0))
    writer.tell(20, part_back("b", 1), leaves("b"), bump(3))
    writer.tell(21, joins("m", "consumer"), bump(4))
    writer.tell(22, target(4))
    writer.tell(24, part("m", 1))
    writer.tell(50, part_back("m", 1), bump(5), target(5))
    writer.tell(57, part("m", 1))


def rolled_with_one_more(writer: EventWriter) -> None:
    """The new member joins first. The last one is not replaced, and the cost ends when the group
    settles."""
    writer.tell(0, GroupCreated(kind="classic"), joins("a", "classic"))
    writer.tell(1, group_goes(EMPTY, STABLE), part("a", 0))
    writer.tell(10, up(), joins("n", "consumer"), bump(2), target(2))
    writer.tell(20, part_back("a", 0), leaves("a"), bump(3), target(3))
    writer.tell(22, part("n", 0))
    writer.tell(90, part_back("n", 0), bump(4), target(4))
    writer.tell(95, part("n", 0))


Found = tuple[str, float | None, float | None, bool, int, int, float]
"""Direction, start, end, completeness, conversions, steps, unowned partition-seconds."""

CASES: Mapping[object, Sequence[Found]] = {
    there: [(UP, 12, 20, True, 1, 2, 6)],
    and_back: [(UP, 2, 4, True, 1, 1, 0), (DOWN, 8, 9, True, 1, 1, 0)],
    given_up: [(UP, 2, 5, False, 2, 1, 0)],
    not_yet: [(UP, 2, None, False, 1, 1, 0)],
    while_empty: [(UP, 3, 7, True, 1, 1, 0)],
    none: [],
    rolled: [(UP, 11, 20, True, 1, 2, 1 + 4)],
    rolled_with_one_more: [(UP, 10, 20, True, 1, 1, 2)],
}
HISTORIES = (
    *(there, and_back, given_up, not_yet, while_empty, none),
    *(rolled, rolled_with_one_more),
)


BOTH = frozenset({"classic", "consumer"})

Migration = tuple[str, int, int | None, bool]
"""Direction, start and end in simulated milliseconds, completeness."""


@dataclass
class Spell:
    """The protocols of a group's members during an interval."""

    mix: frozenset[str]
    from_ms: int
    left_ms: int = 0


@pytest.fixture(scope="module")
def runs() -> Mapping[int, Sequence[SimulatedStep]]:
    """The runs by seed."""
    return undisturbed()


@pytest.fixture(scope="module")
def rows(runs: Mapping[int, Sequence[SimulatedStep]]) -> Sequence[MigrationRow]:
    """The migrations of all histories."""
    told: dict[str, WriteHistory] = {tell.__name__: tell for tell in HISTORIES}
    told |= {f"seed {seed}": partial(write, steps) for seed, steps in runs.items()}
    return folded(*lines_of(told)).migrations


@pytest.mark.parametrize("tell", HISTORIES)
def test_hand_written_histories_have_the_expected_migrations(
    tell: object, rows: Sequence[MigrationRow]
) -> None:
    """Each history is explained where it is defined."""
    found = [
        (
            row.direction,
            seconds(row.from_ms),
            seconds(row.to_ms),
            row.is_complete,
            row.conversions,
            row.steps,
            row.unowned_partition_s,
        )
        for row in rows
        if row.group_id == getattr(tell, "__name__", None)
    ]
    assert sorted(found, key=str) == sorted(CASES[tell], key=str)


def test_migrations_agree_with_the_simulator(
    runs: Mapping[int, Sequence[SimulatedStep]], rows: Sequence[MigrationRow]
) -> None:
    """The engine's members at every step show when groups migrated."""
    for seed, steps in runs.items():
        found = [
            (
                row.direction,
                row.from_ms - START_MS,
                None if row.to_ms is None else row.to_ms - START_MS,
                row.is_complete,
            )
            for row in rows
            if row.group_id == f"seed {seed}"
        ]
        assert sorted(found, key=str) == sorted(truth(steps), key=str), seed


def truth(steps: Sequence[SimulatedStep]) -> Iterator[Migration]:
    """From the first moment with both protocols, or from the last member of one to the first of the
    other."""
    spells = list(_spells(steps))
    for place, spell in enumerate(spells):
        before = spells[place - 1] if place else None
        after = spells[place + 1] if place + 1 < len(spells) else None
        if len(spell.mix) > 1:
            known = before.mix if before else BOTH - after.mix if after else {"classic"}
            is_complete = after is not None and after.mix != known
            to_ms = after.from_ms if after else None
            yield UP if "classic" in known else DOWN, spell.from_ms, to_ms, is_complete
        elif before and len(before.mix) == 1:
            direction = UP if "classic" in before.mix else DOWN
            yield direction, before.left_ms, spell.from_ms, True


def _spells(steps: Sequence[SimulatedStep]) -> Iterator[Spell]:
    """The successive protocols. An empty group in between changes nothing."""
    mixes = {step.at_ms: frozenset(m.protocol for m in step.members.values()) for step in steps}
    spell: Spell | None = None
    was: frozenset[str] = frozenset()
    for at_ms, mix in mixes.items():
        if spell and was == spell.mix != mix:
            spell.left_ms = at_ms
        if mix and (spell is None or mix != spell.mix):
            if spell:
                yield spell
            spell = Spell(mix, at_ms)
        was = mix
    if spell:
        yield spell


def test_each_told_setback_is_a_row() -> None:
    """With the lag before and after. Other events say nothing of it."""
    writer = EventWriter()
    writer.tell(1, GroupCreated(kind="classic"))
    worse = StepMadeWorse(
        client_id="payments-3",
        client_host="10.0.0.3",
        protocol="consumer",
        lag_before=10,
        lag_after=4_000,
        records_per_s_before=90.0,
        records_per_s_after=20.5,
    )
    writer.beside(60, worse)
    (row,) = folded(*writer.lines).worse_steps
    assert (row.client_id, seconds(row.at_ms), row.client_lag) == ("payments-3", 60, None)
    assert (row.lag_before, row.lag_after) == (10, 4_000)
    assert (row.records_per_s_before, row.records_per_s_after) == (90.0, 20.5)
