"""The rows of a group depend only on its events: not on how their lines are cut into files, on
their order, or on repeats, and not on where a fold stops and goes on."""

import random
import re
from collections import Counter
from collections.abc import Iterable
from functools import partial

import pytest

from gateway.events.group_events import HostingStarted
from gateway.events.member_events import PartitionsAssigned
from gateway.pipeline.fold.history import Hosting, LateLineError, Order
from gateway.pipeline.fold.lines import Line
from gateway.pipeline.fold.sequences import (
    PROCESS_STATES,
    Number,
    ProcessFold,
    SequenceKey,
    SequenceRow,
)
from gateway.pipeline.fold.tables import (
    ALL_ROWS,
    PIECE_MIN,
    STATES,
    GroupFold,
    Part,
    Tables,
    begin,
    fold_name,
    fold_process,
    go_on,
    pieces_of,
)
from gateway.pipeline.report.digest import Digest
from tests.support.event_writer import GROUP, START_MS, EventWriter, lines_of
from tests.support.folded_lines import folded, folds, joined, placed
from tests.support.offset_history import OffsetHistory
from tests.support.simulated_events import simulated, simulated_with_excuses
from tests.support.simulated_lines import write, write_reports

SEEDS = range(2)
CUTS = 5
SLOWER = 20
PROCESS = SequenceKey("g", None, "p", None)


def lines(*seeds: int) -> list[str]:
    return lines_of({f"seed {seed}": partial(write, simulated(seed)) for seed in seeds})


def rows(tables: Tables) -> Counter[str]:
    return Counter(repr(row) for name in ALL_ROWS for row in getattr(tables, name))


@pytest.mark.parametrize("seed", SEEDS)
def test_lines_may_be_cut_anywhere_and_read_again(seed: int) -> None:
    """The second part comes first, and overlaps the first one."""
    told, dice = lines(seed), random.Random(seed)
    expected = rows(folded(*told))
    for _ in range(CUTS):
        cut = dice.randrange(len(told))
        assert rows(folded(*told[cut:], *told[: cut + 10])) == expected


def test_digests_may_be_added_in_any_order() -> None:
    """As JSON, as they are stored."""
    made = list(folds(*lines(*SEEDS)))
    whole, parts = Digest(top=2), []
    for key, tables in made:
        whole.add(key, tables)
        part = Digest(top=2)
        part.add(key, tables)
        parts.append(part.model_dump_json())
    whole.cut()
    for order in (parts, parts[::-1]):
        summed = Digest(top=2)
        for each in order:
            summed.merge(Digest.model_validate_json(each))
        summed.versions.sort(key=repr)
        whole.versions.sort(key=repr)
        told = summed.model_dump(exclude={"figures"})
        assert told == whole.model_dump(exclude={"figures"})
        assert summed.figures.sums == whole.figures.sums


def in_order(seed: int, steps: int) -> list[Line]:
    """The beginning of a simulated history, slowed down so that rows are closed before its end.
    Lines are missing, unreadable, or written twice."""
    writer = EventWriter()
    for number, step in enumerate(simulated_with_excuses(seed)[0][:steps]):
        at_s = (step.at_ms - START_MS) / 1000
        write_reports(step, writer)
        (writer.tell if step.is_durable else writer.beside)(at_s, *step.events)
        if number % 50 == 49:
            writer.lose()
    writer.lines[20] = writer.lines[20].replace('"fields":{', '"fields":{"odd":1,')
    writer.lines.insert(10, writer.lines[9])
    return placed(*(re.sub(r'_ms":(\d+)', slower, line) for line in writer.lines))


def slower(at_ms: re.Match[str]) -> str:
    return f'_ms":{int(at_ms[1]) * SLOWER}'


def of_pieces(*pieces: list[Line]) -> Counter[str]:
    """All rows of a group, whose lines come in these pieces."""
    ((_key, tables),) = joined(fold_name(GROUP, pieces, {}))
    return rows(tables)


def stored(fold: GroupFold) -> GroupFold:
    return STATES.validate_json(STATES.dump_json(fold))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fold_stops_and_goes_on_at_every_line(seed: int) -> None:
    """The rows that were closed by then, and the others at the end, are those of one fold. So they
    are at each line before the end."""
    told = in_order(seed, 200)
    fold = begin("", GROUP)
    closed: Counter[str] = Counter()
    for number, line in enumerate(told, 1):
        closed += rows(fold.take([line]))
        fold = stored(fold)
        if number % 20 == 0 or number == len(told):
            assert closed + rows(stored(fold).finish()) == of_pieces(told[:number])
    assert closed, "the state keeps no commits for long"


def test_a_late_line_is_not_taken() -> None:
    """It may fill a hole, and change rows that are closed."""
    told = in_order(0, 30)
    fold = begin("", GROUP)
    fold.take([*told[:5], *told[6:]])
    with pytest.raises(LateLineError):
        stored(fold).take([told[5]])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_long_history_is_folded_in_pieces(seed: int) -> None:
    """Rows are closed before the end, and the digest of the parts is that of the whole."""
    told = in_order(seed, 400)
    pieces = [told[at : at + 50] for at in range(0, len(told), 50)]
    parts = list(fold_name(GROUP, pieces, {}))
    assert [part.is_last for part in parts] == [*(False for _ in pieces), True]
    assert sum(bool(part.tables.offsets) for part in parts) > 1
    ((key, tables),) = joined(parts)
    assert rows(tables) == of_pieces(told)
    of_parts, of_whole = Digest(top=1), Digest(top=1)
    for part in parts:
        of_parts.add(part.key, part.tables, is_last=part.is_last)
    of_whole.add(key, tables)
    of_parts.cut()
    of_whole.cut()
    assert of_parts == of_whole


def test_pieces_that_are_not_in_order_are_folded_at_once() -> None:
    """Here two of them overlap, and one comes first."""
    told = in_order(0, 100)
    assert of_pieces(told[60:], told[20:70], told[:30]) == of_pieces(told)


def test_groups_of_one_name_are_folded_in_their_clusters() -> None:
    lines = [
        line
        for gateway_id in ("g1", "g2")
        for line in placed(*lines_of({gateway_id: partial(write, simulated(0))}))
    ]
    half = len(lines) // 2
    gateways = {each.gateway_id: each.gateway_id for each in lines}
    found = dict(joined(fold_name(GROUP, [lines[:half], lines[half:]], gateways)))
    assert {key for key in found if key} == {(each, GROUP) for each in gateways}


def test_epochs_that_force_no_order_any_more_are_late() -> None:
    """The first log goes on with its epochs."""
    order, first, _second = second_moved_behind_first()
    assert order.forced()
    taken = len(first.lines)
    first.tell(20, assigned(6))
    with pytest.raises(LateLineError):
        list(order.take(placed(*first.lines[taken:])))


def test_hostings_keep_their_order_when_the_group_returns() -> None:
    """The second log goes on behind the first part of the other one."""
    order, first, second = second_moved_behind_first()
    taken = len(second.lines)
    second.tell(9.5, assigned(6))
    (later,) = order.take(placed(*second.lines[taken:]))
    assert later.at_ms == START_MS + 10_000
    taken = len(first.lines)
    first.tell(20, HostingStarted(reason="returns"), assigned(7))
    assert len(list(order.take(placed(*first.lines[taken:])))) == 2
    numbers = [("g0", 0), ("g1", 0), ("g1", 1)]
    one, other, returned = (Hosting(*each) for each in numbers)
    assert order.forced() == {frozenset((one, other)), frozenset((one, returned))}


def second_moved_behind_first() -> tuple[Order, EventWriter, EventWriter]:
    """Two logs: the clock of the second one is behind, but its epochs tell that it came later."""
    first, second = EventWriter("g1", "p1"), EventWriter("g0", "p0")
    first.tell(1, assigned(3))
    first.tell(10, assigned(4))
    second.tell(9, assigned(5))
    order = Order()
    list(order.take(placed(*first.lines, *second.lines)))
    return order, first, second


def test_a_sequence_that_begins_again_goes_on_while_the_clock_is_behind() -> None:
    """All of its events get the time that the clock had reached before."""
    writer, order = EventWriter(), Order()
    writer.tell(10, assigned(1), assigned(2))
    writer.forget(5)
    writer.tell(5, assigned(3))
    for line in placed(*writer.lines):
        assert len(list(order.take([line]))) == 1


def assigned(epoch: int) -> PartitionsAssigned:
    return PartitionsAssigned(member_id="m", member_epoch=epoch, partitions={"t": (0,)})


def process(numbers: Iterable[Number], fold: ProcessFold | None = None) -> Part:
    return fold_process("c", PROCESS, numbers, fold)


@pytest.mark.parametrize("seed", range(20))
def test_a_sequence_may_be_cut_anywhere(seed: int) -> None:
    """Its gaps and contradictions are those of one piece, whatever comes first. A number that comes
    again later is not taken, because only the lines tell whether they are the same."""
    dice = random.Random(seed)
    numbers = [Number(n, 10 * n, "e", n, True) for n in range(1, 60) if dice.random() < 0.7]
    twice = numbers[len(numbers) // 2]
    both = [twice, twice._replace(content=0)]
    whole = process(sorted([*numbers, both[1]]))
    left = list(numbers)
    fold = ProcessFold()
    while left:
        some = dice.sample(left, min(len(left), dice.randrange(1, 9)))
        left = [each for each in left if each not in some]
        part = process(sorted([*some, *both[1:]] if twice in some else some), fold)
        fold = PROCESS_STATES.validate_json(part.state or "")
    assert rows(part.tables) == rows(whole.tables)
    known = {each.sequence for each in numbers}
    missing = {n for row in part.tables.sequences for n in span(row)}
    assert missing == {*range(min(known), max(known))} - known
    assert [row.sequence for row in part.tables.contradictions] == [twice.sequence]
    assert {row.cluster_id for row in part.tables.contradictions} == {"c"}
    with pytest.raises(LateLineError):
        process([twice], fold)


def span(row: SequenceRow) -> range:
    return range(row.missing_from, row.missing_to + 1)


@pytest.mark.parametrize("seed", range(10))
def test_a_group_goes_on_from_its_states(seed: int) -> None:
    """In batches of any size, as JSON in between: the rows that were closed, and the others of the
    last batch, are those of one fold. A late line makes it fold everything again."""
    dice = random.Random(seed)
    told = in_order(seed % 2, 150)
    if seed > 4:
        told.insert(dice.randrange(60, 140), told.pop(dice.randrange(40)))
    closed: Counter[str] = Counter()
    states: list[str] = []
    taken, is_again = 0, False
    while taken < len(told):
        new = told[taken : taken + dice.randrange(1, 40)]
        taken += len(new)
        try:
            parts = list(go_on(GROUP, map(STATES.validate_json, states), new, {}))
        except LateLineError:
            parts, closed = list(fold_name(GROUP, [told[:taken]], {}, keeps_state=True)), Counter()
            is_again = True
        for part in parts:
            closed += Counter() if part.is_last else rows(part.tables)
        states = [part.state for part in parts if part.state is not None]
    assert closed + rows(parts[-1].tables) == of_pieces(told)
    assert is_again == (seed > 4)


def test_a_gateway_in_another_cluster_makes_its_groups_late() -> None:
    """The fold had begun before the gateway named its cluster."""
    told = in_order(0, 20)
    (part,) = [each for each in go_on(GROUP, (), told, {}) if each.state is not None]
    folds = [STATES.validate_json(part.state or "")]
    with pytest.raises(LateLineError):
        list(go_on(GROUP, folds, (), {told[0].gateway_id: "c"}))


def test_items_of_one_key_are_in_one_piece() -> None:
    keys = [0] * (PIECE_MIN - 1) + [1] * PIECE_MIN + [2]
    assert list(map(len, pieces_of(keys, int))) == [2 * PIECE_MIN - 1, 1]


def test_commits_do_not_make_the_state_grow() -> None:
    """It holds those of the latest moment, whose place is still open."""
    it = OffsetHistory(GROUP)
    it.gets(0, "a")
    sizes: list[int] = []
    fold = begin("", GROUP)
    taken = 0
    for second in range(1, 1_000):
        it.commits(second, "a", second)
        fold.take(placed(*it.writer.lines[taken:]))
        taken = len(it.writer.lines)
        if second % 300 == 0:
            sizes.append(len(STATES.dump_json(fold)))
    assert max(sizes) - min(sizes) < 100, "a few more digits"
