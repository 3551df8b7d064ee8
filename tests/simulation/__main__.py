"""Plays seeded runs of one group under faults, and checks every step: `poe simulate --help`."""

import argparse
import sys
from collections.abc import Sequence

from gateway.pipeline import PipelineError, installed
from tests.simulation import sweep

SEEDS_MAX = 1_000_000
SEED_MAX = 2**63 - 1


def parser() -> argparse.ArgumentParser:
    """The command line of `poe simulate`."""
    arguments = argparse.ArgumentParser(
        prog="poe simulate",
        description=f"{__doc__} With --output, --master or --conf on Spark: all seeds, even after"
        " a failure, a row each.",
        allow_abbrev=False,
    )
    arguments.add_argument(
        "--seeds", type=int, metavar="N", default=200, help="number of runs (default: 200)"
    )
    arguments.add_argument(
        "--first-seed", type=int, metavar="S", default=0, help="first seed (default: 0)"
    )
    arguments.add_argument(
        "--output",
        metavar="DIR",
        help="a folder for Parquet rows, written by Spark: new, or of a sweep that was killed"
        " (default: seeds-FIRST-LAST)",
    )
    arguments.add_argument("--master", metavar="URL", help="Spark's master (default: local[*])")
    arguments.add_argument(
        "--conf",
        action="append",
        metavar="KEY=VALUE",
        default=[],
        help="a Spark setting; can be repeated",
    )
    return arguments


def main(words: Sequence[str] | None = None) -> int:
    """Play the seeds. Returns 1 if one breaks an invariant."""
    commands = parser()
    options = commands.parse_args(words)
    first_seed, seeds = options.first_seed, options.seeds
    if not 1 <= seeds <= SEEDS_MAX:
        commands.error(f"--seeds: {seeds} is not a number from 1 to {SEEDS_MAX}")
    if not 0 <= first_seed <= SEED_MAX - seeds + 1:
        commands.error(f"--first-seed: the first and last seed are numbers from 0 to {SEED_MAX}")
    settings = {}
    for setting in options.conf:
        name, is_set, settings[name] = setting.partition("=")
        if not is_set:
            commands.error(f"--conf: {setting!r} is not KEY=VALUE")
    if not (options.output or options.master or settings):
        is_fine, report = sweep.run(first_seed, seeds)
    else:
        try:
            installed.require()
            from tests.simulation.spark import sweep as spark_sweep  # needs Spark

            output = options.output or f"seeds-{first_seed}-{first_seed + seeds - 1}"
            is_fine, report = spark_sweep.run(
                first_seed, seeds, output, master=options.master, settings=settings
            )
        except PipelineError as error:
            commands.exit(1, f"{commands.prog}: {error}\n")
    sys.stdout.write(f"{report}\n")
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
