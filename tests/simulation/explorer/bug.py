"""How a bug is planted in a small world, hunted, and listed on a page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from tests.simulation.explorer.search import Bounds, Report, explore
from tests.simulation.explorer.shape import Shape
from tests.simulation.explorer.small_consumers import Kind
from tests.simulation.explorer.small_world import Move
from tests.simulation.explorer.worlds import WORLDS

Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Bug:
    """One planted bug, the world that shows it, and words of the promise that it breaks."""

    name: str
    what: str
    shape: Shape
    breaks: str
    plant: Callable[[Patch], None]


def shows_in(
    world: str,
    breaks: str,
    budgets: Mapping[str, int] | None = None,
    begins_with: tuple[Move, ...] | None = None,
    consumers: Sequence[str] = (),
) -> Callable[[Callable[[Patch], None]], Bug]:
    """Turn a function that plants a bug into a `Bug`. The world may get other budgets, first moves
    and consumers."""

    def bug(plant: Callable[[Patch], None]) -> Bug:
        what = " ".join((plant.__doc__ or "").split())
        shape = WORLDS[world]
        if budgets is not None:
            shape = replace(shape, budgets=budgets)
        if begins_with is not None:
            shape = replace(shape, begins_with=begins_with)
        if consumers:
            named = tuple(zip("abc", map(Kind, consumers), strict=False))
            shape = replace(shape, consumers=named)
        return Bug(plant.__name__, what, shape, breaks, plant)

    return bug


def hunt(bug: Bug) -> Report:
    """Explore the bug's world with the bug."""
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        return explore(bug.shape, Bounds(transitions_max=100_000))


def print_table(bugs: Iterable[Bug], *more: Callable[[Bug], object]) -> None:
    """Hunt for the bugs, and print their table, with `more` columns."""
    for bug in bugs:
        report = hunt(bug)
        moves = len(report.finding.moves) if report.finding else "none"
        columns: list[object] = [f"`{bug.name}`", bug.what, f"{report.transitions:,}", moves]
        columns += [column(bug) for column in more]
        print(f"| {' | '.join(map(str, columns))} |", flush=True)
