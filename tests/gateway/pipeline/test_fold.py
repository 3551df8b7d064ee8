"""The rows of a group depend only on its events: not on how their lines are cut into files, on
their order, or on repeats, and not on where a fold stops and goes on."""

import random
import re
from collections import Counter
from functools import partial

import pytest

from gateway.pipeline.fold import STATES, GroupFold, begin, fold_group
from gateway.pipeline.history import LateLineError, Numbered
from gateway.pipeline.report.numbers.digest import Digest
from gateway.pipeline.tables.catalog import ALL_ROWS, Tables
from tests.support.event_writer import GROUP, START_MS, EventWriter, lines_of
from tests.support.folded_lines import folded, folds, numbered
from tests.support.offset_history import OffsetHistory
from tests.support.simulated_events import simulated, simulated_with_excuses
from tests.support.simulated_lines import write

SEEDS = range(2)
CUTS = 5
SLOWER = 20


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


def in_order(seed: int, steps: int) -> list[Numbered]:
    """The beginning of a simulated history, slowed down so that rows are closed before its end.
    Lines are missing, unreadable, or written twice."""
    writer = EventWriter()
    for number, step in enumerate(simulated_with_excuses(seed)[0][:steps]):
        at_s = (step.at_ms - START_MS) / 1000
        writer.beside(at_s, *step.offsets)
        (writer.tell if step.is_durable else writer.beside)(at_s, *step.events)
        if number % 50 == 49:
            writer.lose()
    writer.lines[20] = writer.lines[20].replace('"fields":{', '"fields":{"odd":1,')
    writer.lines.insert(10, writer.lines[9])
    return numbered(*(re.sub(r'_ms":(\d+)', slower, line) for line in writer.lines))


def slower(at_ms: re.Match[str]) -> str:
    return f'_ms":{int(at_ms[1]) * SLOWER}'


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
            expected = rows(fold_group("", GROUP, told[:number]))
            assert closed + rows(stored(fold).finish()) == expected
    assert closed, "the state keeps no commits for long"


def test_a_late_line_is_not_taken() -> None:
    """It may fill a hole, and change rows that are closed."""
    told = in_order(0, 30)
    fold = begin("", GROUP)
    fold.take([*told[:5], *told[6:]])
    with pytest.raises(LateLineError):
        stored(fold).take([told[5]])


def test_commits_do_not_make_the_state_grow() -> None:
    """It holds those of the latest moment, whose place is still open."""
    it = OffsetHistory(GROUP)
    it.gets(0, "a")
    sizes: list[int] = []
    fold = begin("", GROUP)
    taken = 0
    for second in range(1, 1_000):
        it.commits(second, "a", second)
        fold.take(numbered(*it.writer.lines[taken:]))
        taken = len(it.writer.lines)
        if second % 300 == 0:
            sizes.append(len(STATES.dump_json(fold)))
    assert max(sizes) - min(sizes) < 100, "a few more digits"
