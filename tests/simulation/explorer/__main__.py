"""Plays every interleaving of a small world, breadth first: `poe explore --help`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.simulation.explorer import reporting
from tests.simulation.explorer.search import Bounds
from tests.simulation.explorer.small_consumers import Kind
from tests.simulation.explorer.worlds import WORLDS

CONSUMERS_MAX = 4
PARTITIONS_MAX = 9
BUDGETS = (
    *("start", "crash", "leave", "switch", "commit", "lose", "late", "fail", "slow"),
    *("restart", "remove", "intrude", "adopt", "release", "hang-up", "reconfigure", "pause"),
    "sleep",
)
BUDGET_MAX = 9


def parser() -> argparse.ArgumentParser:
    """The command line of `poe explore`."""
    arguments = argparse.ArgumentParser(
        prog="poe explore",
        description=f"{__doc__} The engine and what hosts it, with a log, a cluster and consumers."
        " Without WORLD, list the worlds.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    arguments.add_argument("world", metavar="WORLD", nargs="?", choices=WORLDS, help="its name")
    arguments.add_argument(
        "--consumers",
        metavar="KIND,...",
        type=_kinds,
        help=f"other consumers: {', '.join(Kind)}",
    )
    arguments.add_argument(
        "--partitions", type=int, choices=range(1, PARTITIONS_MAX + 1), metavar="N", help="others"
    )
    arguments.add_argument(
        "--budgets",
        metavar="MOVE=N,...",
        type=_budgets,
        help=f"how often what may happen: {', '.join(BUDGETS)}",
    )
    arguments.add_argument(
        "--from-start",
        action="store_true",
        help="begin without consumers, not with consumers that have their shares",
    )
    arguments.add_argument("--states", type=_count, metavar="N", default=1_000_000, help="at most")
    arguments.add_argument(
        "--transitions", type=_count, metavar="N", default=10_000_000, help="at most"
    )
    arguments.add_argument(
        "--replay", type=_content, metavar="FILE", help="play this script instead; - is stdin"
    )
    return arguments


def main(words: Sequence[str] | None = None) -> int:
    """Play a world or a script. Returns 1 if it breaks a promise."""
    options = parser().parse_args(words)
    if options.world is None:
        print(reporting.list_worlds())
        return 0
    shape = reporting.alter_shape(
        WORLDS[options.world],
        consumers=options.consumers,
        partitions=options.partitions,
        budgets=options.budgets,
        from_start=options.from_start,
    )
    if options.replay is not None:
        is_fine, report = reporting.replay(shape, options.replay)
    else:
        bounds = Bounds(states_max=options.states, transitions_max=options.transitions)
        is_fine, report = reporting.run(shape, bounds)
    sys.stdout.write(f"{report}\n")
    return 0 if is_fine else 1


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _content(name: str) -> str:
    """The text of a file, or for `-` of standard input."""
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"can't read {name!r}: {error}") from None


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(text.split(","))
    if unknown := [kind for kind in kinds if kind not in tuple(Kind)]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(Kind)}")
    if len(kinds) > CONSUMERS_MAX:
        raise argparse.ArgumentTypeError(f"at most {CONSUMERS_MAX}")
    return kinds


def _budgets(text: str) -> dict[str, int]:
    budgets = {}
    for part in text.split(","):
        move, _, count = part.partition("=")
        if move not in BUDGETS or not count.isdecimal() or int(count) > BUDGET_MAX:
            raise argparse.ArgumentTypeError(
                f"{part!r} is no MOVE=N with N up to {BUDGET_MAX} and MOVE of {', '.join(BUDGETS)}"
            )
        budgets[move] = int(count)
    return budgets


if __name__ == "__main__":
    sys.exit(main())
