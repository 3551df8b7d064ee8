"""The rows of a group depend only on its events: not on how their lines are cut into files, on
their order, or on repeats. A stream that stops anywhere and goes on therefore equals a batch."""

import random
from collections import Counter
from functools import partial

import pytest

from gateway.pipeline.fold import Tables
from gateway.pipeline.report.numbers.digest import Digest
from gateway.pipeline.tables.catalog import ALL_ROWS
from tests.support.folds import folded, folds
from tests.support.scribe import lines_of
from tests.support.simulated_events import simulated
from tests.support.simulated_lines import write

SEEDS = range(2)
CUTS = 5


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
