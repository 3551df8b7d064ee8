"""Compares the tables with what the simulator knows: the holders, rebalances and committed offsets
of a seed at every step."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from gateway.events.event import GatewayEvent
from gateway.events.group_events import GroupEpochBumped, GroupStateChanged, TopicsDeleted
from gateway.events.member_events import PartitionsAssigned
from gateway.events.offset_events import CommittedOffsets, OffsetsCommitted
from gateway.pipeline.fold.rows import StepRow, Tables
from tests.support.event_writer import GROUP, START_MS, EventWriter, lines_of
from tests.support.folded_lines import fold_texts
from tests.support.group_events import EMPTY, PREPARING, STABLE
from tests.support.simulated_events import SimulatedStep, is_determined
from tests.support.simulated_lines import write

ZOMBIE = "zombie"


def problems(steps: Sequence[SimulatedStep], excused: Set[tuple[str, int]]) -> list[str]:
    """How the tables of a run contradict the simulator."""
    folded_tables = tables(steps)
    problems = [*owners(folded_tables, steps), *offsets(steps, excused)]
    if is_determined(steps):
        problems += rebalances(folded_tables, steps)
        problems += roll_steps(folded_tables, steps)
    return problems


def tables(steps: Sequence[SimulatedStep]) -> Tables:
    """The tables of these steps."""
    return fold_texts(*lines_of({GROUP: partial(write, steps)}))


def owners(folded_tables: Tables, steps: Sequence[SimulatedStep]) -> Iterator[str]:
    """No partition ever has two owners, and the last owners are the engine's."""
    twice = (row for row in folded_tables.findings if row.kind == "owned_twice" and row.is_certain)
    yield from (f"owned twice: {row}" for row in twice)
    still = {
        (row.topic, row.partition): row.member_id
        for row in folded_tables.ownership
        if row.to_ms is None and row.member_id is not None
    }
    untold = untold_holdings(steps)[-1] if steps else frozenset()
    true = {p: owner for p, owner in steps[-1].holdings.items() if p not in untold} if steps else {}
    if {p: owner for p, owner in still.items() if p not in untold} != true:
        yield f"last owners: {still} are {true}"


def untold_holdings(steps: Sequence[SimulatedStep]) -> Sequence[Set[tuple[str, int]]]:
    """After each step, the partitions of recreated topics whose holders no event has named since.
    The assignment of a classic member names topics, so it gets the partitions of another topic of
    that name without an event."""
    holdings: list[Set[tuple[str, int]]] = []
    ended: set[str] = set()
    named: set[tuple[str, int]] = set()
    for step in steps:
        for event in step.events:
            match event:
                case TopicsDeleted(topics=topics):
                    ended.update(topics)
                    named = {holding for holding in named if holding[0] not in topics}
                case PartitionsAssigned(partitions=partitions):
                    named.update((name, n) for name, numbers in partitions.items() for n in numbers)
                case _:
                    pass
        holdings.append({holding for holding in step.holdings if holding[0] in ended} - named)
    return holdings


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A rebalance in the engine's state."""

    from_ms: int
    first: int
    """Its first step."""
    is_last: bool
    is_known: bool
    """Whether no process ended during it, because its unfinished work is not reported, no topic was
    recreated, because the state does not distinguish the partitions of one from those of the other,
    and the events name every holder."""


def rebalances(folded_tables: Tables, steps: Sequence[SimulatedStep]) -> Iterator[str]:
    """The engine's figures equal those of the simulator's state when a rebalance began and ended.
    One that a process did not end, or that continues, has no row."""
    rounds = {true.from_ms: true for true in simulated_rounds(steps)}
    rows = {row.from_ms - START_MS: row for row in folded_tables.rebalances}
    yield from (f"rebalance at {at_ms} did not begin" for at_ms in sorted(rows.keys() - rounds))
    for at_ms, true in rounds.items():
        if not true.is_known:
            continue
        row = rows.get(at_ms)
        if row is None:
            if not true.is_last:
                yield f"rebalance at {at_ms} is not told"
            continue
        if row.was_interrupted or _is_shared(steps, row.to_ms - START_MS):
            continue  # its end is within a step
        moved, fewest, members = figures(steps, true.first, row.to_ms - START_MS)
        if (row.partitions_moved, row.least_possible, row.members) != (moved, fewest, members):
            yield f"rebalance: {row} moved {moved}, at least {fewest}, of {members} members"


def roll_steps(folded_tables: Tables, steps: Sequence[SimulatedStep]) -> Iterator[str]:
    """The engine's figures of the steps of rolls equal those of the simulator's state. If two steps
    overlap, the state does not show which consumer has replaced which."""
    numbers = {step.at_ms: n for n, step in enumerate(steps)}
    movers, untold = _members_of_several_instances(steps), untold_holdings(steps)
    for row in folded_tables.steps:
        if any(other is not row and _overlap(other, row) for other in folded_tables.steps):
            continue
        first, to_ms = numbers.get(row.from_ms - START_MS), row.to_ms - START_MS
        if first is None or _is_shared(steps, row.from_ms - START_MS) or _is_shared(steps, to_ms):
            continue
        spell = steps[max(0, first - 1) : numbers[to_ms] + 1]
        owners = {name for step in spell for name in step.holdings.values()}
        gone = {name for step in spell for name in _topics_gone(step)}
        is_disturbed = any(step.loaded is not None for step in spell[1:]) or gone
        is_untold = any(untold[max(0, first - 1) : numbers[to_ms] + 1])
        successors = _successors(spell, row)
        if is_disturbed or is_untold or not owners.isdisjoint(movers) or successors is None:
            continue
        moved, fewest, members = figures(steps, first, to_ms, successors)
        if (row.partitions_moved, row.least_possible, row.members) != (moved, fewest, members):
            yield f"step: {row} moved {moved}, at least {fewest}, of {members} members"


def _overlap(one: StepRow, other: StepRow) -> bool:
    return one.from_ms <= other.to_ms and other.from_ms <= one.to_ms


def _successors(spell: Sequence[SimulatedStep], row: StepRow) -> Mapping[str, str] | None:
    """The consumer after the step by its name before; None if the state does not show which one it
    is."""
    before = _actors(spell[0])
    left = before.keys() - _actors(spell[1]).keys() if len(spell) > 1 else set()
    came = {name for step in spell[1:] for name in _actors(step).keys() - before.keys()}
    if row.instance_id in before or not (left or came):
        return {}
    # Of a consumer that was replaced by one that had come before, another one may take the place.
    clients = {
        client_id for step in spell[1:] for name, client_id in _actors(step).items() if name in came
    }
    is_clear = len(left) == len(came) == 1 and clients == {row.client_id}
    return dict(zip(left, came, strict=True)) if is_clear else None


def _actors(step: SimulatedStep) -> Mapping[str, str]:
    """The client ids of all consumers."""
    return {member.instance_id or name: member.client_id for name, member in step.members.items()}


def figures(
    steps: Sequence[SimulatedStep],
    first: int,
    to_ms: int,
    successors: Mapping[str, str] = MappingProxyType({}),
) -> tuple[int, int, int]:
    """The partitions that moved from the step on until a time, the fewest possible, and the members
    then. `successors`: consumers that have another name at the end."""
    last = max(n for n, step in enumerate(steps) if step.at_ms <= to_ms)
    before = _owners(steps[first - 1]) if first else {}
    had = {partition: successors.get(owner, owner) for partition, owner in before.items()}
    has = _owners(steps[last])
    sizes, same = Counter(has.values()), Counter(had[p] for p in has if p in had)
    moved = sum(had.get(p) != owner for p, owner in has.items())
    return moved, len(has) - sum((sizes & same).values()), len(steps[last].members)


def simulated_rounds(steps: Sequence[SimulatedStep]) -> Iterator[Round]:
    """The steps between the beginnings of two rebalances."""
    movers = _members_of_several_instances(steps)
    untold = untold_holdings(steps)
    begins = [n for n, step in enumerate(steps) for event in step.events if begins_one(event)]
    for first, after in zip(begins, [*begins[1:], len(steps)], strict=True):
        last = max(first, after - 1) if after > first else first - 1
        has = _owners(steps[last])
        loads = [step.loaded is not None for step in steps[first : after + 1]]
        bounds = [n for n in (first, after) if n < len(steps)]
        spell = steps[max(0, first - 1) : after + 1]
        owners = {name for step in spell for name in step.holdings.values()}
        ended = {name for step in steps[first : last + 1] for name in _topics_gone(step)}
        is_same = ended.isdisjoint(topic for topic, _number in has)
        is_told = not any(untold[max(0, first - 1) : last + 1])
        is_clear = owners.isdisjoint(movers) and not any(
            _shares_its_ms(steps, n) or _grants_and_begins(steps[n]) for n in bounds
        )
        yield Round(
            from_ms=steps[first].at_ms,
            first=first,
            is_last=after == len(steps),
            is_known=not any(loads) and after > first and is_clear and is_same and is_told,
        )


def _is_shared(steps: Sequence[SimulatedStep], at_ms: int) -> bool:
    return sum(step.at_ms == at_ms for step in steps) > 1


def _owners(step: SimulatedStep) -> dict[tuple[str, int], str]:
    """By instance: a static member that returns is the same owner."""
    return {
        partition: step.members[member_id].instance_id or member_id
        for partition, member_id in step.holdings.items()
    }


def _topics_gone(step: SimulatedStep) -> Iterator[str]:
    for event in step.events:
        if isinstance(event, TopicsDeleted):
            yield from event.topics


def _members_of_several_instances(steps: Sequence[SimulatedStep]) -> set[str]:
    """Members that took over another instance, because the table knows one instance per member."""
    pairs = {(name, member.instance_id) for step in steps for name, member in step.members.items()}
    counts = Counter(name for name, _ in pairs)
    return {name for name, count in counts.items() if count > 1}


def _shares_its_ms(steps: Sequence[SimulatedStep], n: int) -> bool:
    """Whether a neighbouring rebalance happened within the same millisecond, which the table cannot
    distinguish."""
    return any(step.at_ms == steps[n].at_ms for step in (steps[n - 1], *steps[n + 1 : n + 2]))


def _grants_and_begins(step: SimulatedStep) -> bool:
    """Whether a step moves partitions before it begins a rebalance. The table counts those for the
    previous rebalance, and the step's state cannot separate them."""
    kinds = [isinstance(event, PartitionsAssigned) for event in step.events]
    begins = [begins_one(event) for event in step.events]
    return any(kinds) and any(begins) and kinds.index(True) < begins.index(True)


def begins_one(event: GatewayEvent) -> bool:
    match event:
        case GroupEpochBumped():
            return True
        case GroupStateChanged(from_state=before, to_state=after):
            return after == PREPARING and before in (EMPTY, STABLE)
        case _:
            return False


def offsets(steps: Sequence[SimulatedStep], excused: Set[tuple[str, int]]) -> Iterator[str]:
    """No commit is lost or non-monotonic, apart from the commits of a zombie at the end, which
    takes one record of each partition back. Excused are the partitions that members lied about, or
    whose reset no event reports, so that what the zombie commits may be ahead of it."""
    writer = EventWriter()
    write(steps, writer)
    last, committed = steps[-1], _committed_offsets(steps)
    taken_back = committed.keys() & last.holdings.keys() - untold_holdings(steps)[-1] - excused
    for topic, number in sorted(taken_back):
        writer.beside(last.at_ms / 1000, _back(topic, number, committed, last.at_ms))
    folded_tables = fold_texts(*writer.lines)
    lost = {
        (row.topic, row.partition) for row in folded_tables.findings if row.kind == "commit_lost"
    }
    back = [row for row in folded_tables.findings if row.kind == "commit_went_back"]
    by_zombie = {(row.topic, row.partition) for row in back if row.member_id == ZOMBIE}
    others = {(row.topic, row.partition) for row in back if row.member_id != ZOMBIE}
    yield from (f"a lost commit of {partition}" for partition in sorted(lost.difference(excused)))
    yield from (
        f"a commit of {partition} went back" for partition in sorted(others.difference(excused))
    )
    yield from (
        f"the zombie of {partition} is not seen" for partition in sorted(taken_back - by_zombie)
    )


def _committed_offsets(steps: Sequence[SimulatedStep]) -> Mapping[tuple[str, int], int]:
    """The offsets of topics that still exist. Commits are reported later than they are stored."""
    gone_ms: dict[str, int] = {}
    committed: dict[tuple[str, int], int] = {}
    for step in steps:
        for event in (*(offset for _at_ms, offset in step.offsets), *step.events):
            if isinstance(event, OffsetsCommitted):
                for topic, entries in event.offsets.items():
                    if event.to_ms > gone_ms.get(topic, -1):
                        committed |= {(topic, entry.partition): entry.last for entry in entries}
            elif isinstance(event, TopicsDeleted):
                gone_ms |= dict.fromkeys(event.topics, step.at_ms)
                committed = {p: n for p, n in committed.items() if p[0] not in event.topics}
    return committed


def _back(
    topic: str, number: int, committed: Mapping[tuple[str, int], int], at_ms: int
) -> OffsetsCommitted:
    lower = committed[topic, number] - 1
    back = CommittedOffsets(partition=number, commits=1, first=lower, lowest=lower, last=lower)
    return OffsetsCommitted(
        member_id=ZOMBIE,
        is_transactional=False,
        from_ms=at_ms + START_MS,
        to_ms=at_ms + START_MS,
        offsets={topic: (back,)},
    )
