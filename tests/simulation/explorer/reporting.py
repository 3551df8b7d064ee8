"""Plays every interleaving of a small world and reports what came of it."""

import gc
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.simulation.explorer import script
from tests.simulation.explorer.promises import BrokenPromiseError
from tests.simulation.explorer.search import Bounds, Report, explore
from tests.simulation.explorer.shape import Shape
from tests.simulation.explorer.small_consumers import Kind
from tests.simulation.explorer.worlds import WORLDS
from tests.support.garbage import OBJECTS_PER_COLLECTION

PROGRESS_INTERVAL_S = 10
NAMES = "abcd"
"""The names of the consumers of an altered world."""


def list_worlds() -> str:
    """The named worlds, a line each."""
    width = max(map(len, WORLDS))
    return "\n".join(f"{name:{width}}  {shape.what}" for name, shape in WORLDS.items())


def alter_shape(
    shape: Shape,
    *,
    consumers: Sequence[str] | None = None,
    partitions: int | None = None,
    budgets: Mapping[str, int] | None = None,
    from_start: bool = False,
) -> Shape:
    """The world with other consumers, partitions or budgets."""
    if consumers is not None:
        kinds = tuple(map(Kind, consumers))
        classic = next((kind for kind in kinds if kind is not Kind.NATIVE), shape.classic)
        shape = replace(shape, consumers=tuple(zip(NAMES, kinds, strict=False)), classic=classic)
    if partitions is not None:
        shape = replace(shape, partition_count=partitions)
    if budgets is not None:
        shape = replace(shape, budgets=budgets)
    return replace(shape, begins_at_rest=shape.begins_at_rest and not from_start)


def command(shape: Shape) -> str:
    """The command that explores this world."""
    named, words = WORLDS[shape.name], ["poe", "explore", shape.name]
    if shape.consumers != named.consumers:
        words += ("--consumers", ",".join(kind for _name, kind in shape.consumers))
    if shape.partition_count != named.partition_count:
        words += ("--partitions", str(shape.partition_count))
    if shape.budgets != named.budgets:
        words += ("--budgets", ",".join(f"{move}={n}" for move, n in shape.budgets.items()))
    if shape.begins_at_rest != named.begins_at_rest:
        words.append("--from-start")
    return shlex.join(words)


def run(shape: Shape, bounds: Bounds) -> tuple[bool, str]:
    """Search a world. Returns whether nothing broke, and the report. A long search prints its
    progress to stderr."""
    gc.set_threshold(OBJECTS_PER_COLLECTION)  # the states are kept, so collecting finds little
    started_s = told_s = time.monotonic()

    def progress(depth: int, states: int, transitions: int) -> None:
        nonlocal told_s
        if time.monotonic() - told_s >= PROGRESS_INTERVAL_S:
            told_s = time.monotonic()
            sys.stderr.write(f"depth {depth}: {states:,} states, {transitions:,} transitions\n")

    report = explore(shape, bounds, progress)
    lines = [summary(report, time.monotonic() - started_s)]
    if report.finding is not None:
        lines += (
            "",
            f"Broken: {report.finding.reason}",
            "",
            "To replay it:",
            f"{command(shape)} --replay - <<'END'",
            *report.finding.moves,
            "END",
        )
    return report.finding is None, "\n".join(lines)


def summary(report: Report, duration_s: float) -> str:
    """What was played, and what is unknown."""
    how = "is exhausted" if report.is_exhausted else "is not exhausted"
    return (
        f"{report.world} {how}: {report.states:,} states, {report.transitions:,} transitions,"
        f" depth {report.depth}, {duration_s:.0f} s\n"
        f"{report.at_rest:,} states at rest, which is at most {report.moves_to_rest} moves away;"
        f" unknown: {report.unexpanded:,} not expanded,"
        f" {report.unknown:,} that may not come to rest, {report.cut:,} cut by a budget"
    )


def replay(shape: Shape, text: str) -> tuple[bool, str]:
    """Play a script. Returns whether nothing broke, and the transcript."""
    lines = []
    try:
        for move, world in script.play(shape, script.read(text)):
            lines.append(f"{move}\n    {world}")
    except BrokenPromiseError as broken:
        return False, "\n".join((*lines, f"Broken: {broken}"))
    except script.WrongMoveError as wrong:
        return False, "\n".join((*lines, str(wrong)))
    return True, "\n".join((*lines, "Nothing broke."))
