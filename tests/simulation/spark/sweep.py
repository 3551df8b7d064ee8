"""The sweep on Spark: plays many seeds, stores one row for each, and sums them up.

Unlike the local sweep (`tests/simulation/sweep.py`), it plays every seed, whatever breaks. Each
task plays successive seeds, and moves its file into the output folder at its end. A sweep that was
killed therefore continues with the seeds that no file has.
"""

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import tests
from gateway.pipeline import PipelineError
from gateway.pipeline.folder import open_folder
from gateway.pipeline.spark.session import open_session, send_own_code
from tests.simulation.invariants import Invariant
from tests.simulation.run import Outcome, replay_command, simulate

DETAIL_LENGTH_MAX = 2_000
"""Characters kept of a violation; the replay shows everything."""


class SeedRow(NamedTuple):
    """One seed. Counts end with its first violation.

    `events` are those that the engine handled: requests of clients, deadlines, ends of commits.
    `rebalances` counts computed targets and classic generations, `moves` how often a partition got
    a different owner. `convergence_ms` is simulated time, to the second, from the end of all faults
    until all members rest; None if they never do. `violations` is 0 or 1; with 1, `invariant` names
    the invariant that broke, and `detail` describes how.
    """

    seed: int
    events: int
    rebalances: int
    moves: int
    convergence_ms: int | None
    violations: int
    invariant: str | None
    detail: str | None


SCHEMA = (
    "seed long, events long, rebalances long, moves long, convergence_ms long,"
    " violations int, invariant string, detail string"
)
"""The columns of SeedRow as a Spark schema."""


def row_of(seed: int, play: Callable[[int], Outcome] = simulate) -> SeedRow:
    """Play a seed. An error of the simulator itself counts as a violation."""
    try:
        outcome = play(seed)
    except Exception:  # one seed out of a million must not end the others
        outcome = Outcome(
            seed=seed, invariant=str(Invariant.NO_ERROR), detail=traceback.format_exc()
        )
    counts, is_broken = outcome.counts, outcome.invariant is not None
    return SeedRow(
        seed=seed,
        events=counts.get("events", 0),
        rebalances=counts.get("rebalances", 0),
        moves=counts.get("moves", 0),
        convergence_ms=counts.get("convergence ms"),
        violations=int(is_broken),
        invariant=outcome.invariant,
        detail=outcome.detail[:DETAIL_LENGTH_MAX] if is_broken else None,
    )


SEEDS_PER_TASK_MAX = 500
"""A minute or two of one processor, which an executor's loss would cost. Also the rows per file."""

TASKS_PER_PROCESSOR = 4
"""The least number of tasks if there are enough seeds, because seeds differ in length."""

FAILURES_TOLD_MAX = 20

_WRITING = {
    # Otherwise the files of all tasks are moved when the last one has ended.
    "mapreduce.fileoutputcommitter.algorithm.version": "2"
}
_FINISHED = "_SUCCESS"
_UNFINISHED = ("part-", "_temporary")
"""The beginnings of the names in the folder of a sweep that was killed."""


def run(
    first_seed: int, seeds: int, output: str, *, master: str | None, settings: Mapping[str, str]
) -> tuple[bool, str]:
    """Play the seeds. Returns whether none broke, and the report. Raises PipelineError."""
    with open_session("groupferry simulation", master=master, settings=settings) as spark:
        send_own_code(spark.sparkContext, tests)
        before = write_rows(spark, first_seed, seeds, output)
        is_fine, text = report(_read_outcomes(spark, output), first_seed, seeds)
        more = f"\n{before:,} of the seeds were played before, by a run that did not end"
        return is_fine, f"{text}{more if before else ''}\nOne row per seed: {output}"


def write_rows(
    spark: SparkSession,
    first_seed: int,
    seeds: int,
    output: str,
    play: Callable[[int], Outcome] = simulate,
) -> int:
    """Play the seeds on all executors, each of which writes its own rows. Returns how many an
    earlier run had played. Raises PipelineError if the folder has anything else."""

    def rows_of(chunks: Iterable[range]) -> Iterator[SeedRow]:
        return (row_of(seed, play) for seed in chain.from_iterable(chunks))

    context = spark.sparkContext
    names = [name for name in open_folder(output, spark).names() if not name.startswith(".")]
    if _FINISHED in names or not all(name.startswith(_UNFINISHED) for name in names):
        raise PipelineError(f"{output} is not empty, and has no sweep to continue: choose another")
    played = _seeds_of_files(spark, output) if names else []
    left = pieces(range(first_seed, first_seed + seeds), played, tasks(context, seeds))
    if left:
        spread = context.parallelize(left, len(left)).mapPartitions(rows_of)
        rows = spark.createDataFrame(spread, SCHEMA, verifySchema=False)
        rows.write.mode("append").options(**_WRITING).parquet(output)
    return seeds - sum(map(len, left))


def _read_outcomes(spark: SparkSession, output: str) -> DataFrame:
    return spark.read.schema(SCHEMA).parquet(output)


def _seeds_of_files(spark: SparkSession, output: str) -> list[range]:
    """The seeds of each file."""
    files = _read_outcomes(spark, output).groupBy("_metadata.file_path")
    ends = files.agg(f.min("seed").alias("first"), f.max("seed").alias("last")).collect()
    return [range(end["first"], end["last"] + 1) for end in ends]


def pieces(seeds: range, played: Iterable[range], count: int) -> Sequence[range]:
    """The seeds that were not played, in pieces as long as `count` of them would be for all."""
    length = -(-len(seeds) // count)
    gaps: list[range] = []
    at = seeds.start
    for chunk in (*sorted(played, key=attrgetter("start")), range(seeds.stop, seeds.stop)):
        gap = range(at, min(chunk.start, seeds.stop))
        gaps += [gap[n : n + length] for n in range(0, len(gap), length)]
        at = max(at, chunk.stop)
    return gaps


def tasks(context: SparkContext, seeds: int) -> int:
    """The number of tasks."""
    tasks_min = -(-seeds // SEEDS_PER_TASK_MAX)
    return max(tasks_min, min(seeds, context.defaultParallelism * TASKS_PER_PROCESSOR))


def report(rows: DataFrame, first_seed: int, seeds: int) -> tuple[bool, str]:
    """Whether no seed broke, and a text with the totals and the first failed seeds."""
    rows = rows.where(f.col("seed").between(first_seed, first_seed + seeds - 1))
    sums = ("events", "rebalances", "moves", "violations")
    total = rows.agg(*(f.sum(name).alias(name) for name in sums)).first()
    assert total is not None  # an aggregate is one row
    of_all = f"{seeds} seeds, {first_seed} to {first_seed + seeds - 1}"
    counts = ", ".join(f"{total[name]:,} {name}" for name in sums)
    if not total["violations"]:
        return True, f"Nothing broke in {of_all}.\n{counts}"
    failed = rows.where("violations > 0").orderBy("seed").take(FAILURES_TOLD_MAX)
    lines = [f"Broken in {total['violations']:,} of {of_all}:"]
    for row in failed:
        lines += [
            f"Seed {row['seed']} breaks invariant {row['invariant']}",
            f"  To replay it: {replay_command(row['seed'])}",
        ]
    if total["violations"] > len(failed):
        lines.append(f"and {total['violations'] - len(failed):,} more, where violations is 1")
    return False, "\n".join((*lines, counts))
