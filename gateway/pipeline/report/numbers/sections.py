"""The groups with a section, and the contents of each section."""

from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import GROUP
from gateway.pipeline.report.model import GroupStory, Migration, MigrationStep, Share
from gateway.pipeline.report.numbers.chosen import Chosen, key_of
from gateway.pipeline.report.numbers.groups import counts
from gateway.pipeline.report.numbers.limits import made, of_each
from gateway.pipeline.report.numbers.maps import maps
from gateway.pipeline.report.numbers.names import names
from gateway.pipeline.report.window import Span, around, what_matters

MIGRATIONS_MAX = 20
FINDING_TIMES_MAX = 20
SHARES_MAX = 150
STEPS_MAX = 60
"""Limits per group, lower if there are very many groups: see `of_each`."""

_FIGURES = (
    "findings",
    "partitions",
    "unowned_at_end",
    "rebalances",
    "members_disturbed",
    "partitions_moved",
    "partitions_moved_least",
)


def sections(
    tables: Mapping[str, DataFrame],
    worst: Sequence[Row],
    *,
    shares: DataFrame,
    steps: DataFrame,
    end_ms: int,
) -> tuple[GroupStory, ...]:
    """The sections, in the order of `worst`, which has rows of `groups`. Open spans end at
    `end_ms`."""
    if not worst:
        return ()
    spark = tables["timeline"].sparkSession
    chosen = Chosen(spark, {key_of(row): () for row in worst})
    migrations = chosen.first(
        tables["migrations"], ["from_ms"], MIGRATIONS_MAX, partial(made, Migration)
    )
    findings_ms = chosen.first(
        _findings(tables), ["found_ms"], FINDING_TIMES_MAX, lambda row: int(row.found_ms)
    )
    windows = {}
    for row in worst:
        key, whole = key_of(row), _whole(row, end_ms)
        matters = what_matters(migrations[key][0], findings_ms[key][0], whole)
        windows[key] = around(matters, whole), whole
    drawn = maps(tables["ownership"], windows)
    called = names(tables["timeline"], drawn)
    # The longest shares say most. They are drawn in chronological order.
    longest = (F.desc(F.col("to_ms") - F.col("from_ms")), "from_ms")
    shown_shares = chosen.first(
        _ended(shares, end_ms), longest, of_each(SHARES_MAX, len(worst)), partial(made, Share)
    )
    shown_steps = chosen.first(
        _ended(steps, end_ms), ["migration", "number"], of_each(STEPS_MAX, len(worst)), _step
    )
    histories = []
    for row in worst:
        key = key_of(row)
        histories.append(
            GroupStory(
                cluster_id=row.cluster_id,
                group_id=row.group_id,
                **counts(row, _FIGURES),
                unowned_partition_s=row.unowned_ms / 1000,
                finding_times_ms=findings_ms[key][0],
                shares=tuple(sorted(shown_shares[key][0], key=lambda share: share.from_ms)),
                shares_left_out=shown_shares[key][1],
                migrations=migrations[key][0],
                migrations_left_out=migrations[key][1],
                steps=shown_steps[key][0],
                steps_left_out=shown_steps[key][1],
                ownership=drawn.get(key),
                members=called.get(key, ()),
            )
        )
    return tuple(histories)


def _ended(rows: DataFrame, end_ms: int) -> DataFrame:
    return rows.withColumn("to_ms", F.coalesce("to_ms", F.lit(end_ms)))


def _whole(row: Row, end_ms: int) -> Span:
    """The whole span of a group. A group known only from missing events has an empty one."""
    from_ms = end_ms if row.from_ms is None else row.from_ms
    return from_ms, end_ms if row.has_members or row.to_ms is None else row.to_ms


def _findings(tables: Mapping[str, DataFrame]) -> DataFrame:
    """The times of findings in `found_ms`; the end if the beginning is unknown."""
    found_ms = F.coalesce("from_ms", "to_ms").alias("found_ms")
    found = tables["ownership"].where("kind = 'overlap'").select(*GROUP, found_ms)
    for other in (
        tables["offsets"].where("finding = 'regression'").select(*GROUP, "from_ms"),
        tables["lost_commits"].select(*GROUP, "at_ms"),
        tables["differences"].select(*GROUP, "at_ms"),
        tables["sequences"].select(*GROUP, "from_ms"),
        tables["contradictions"].select(*GROUP, "at_ms"),
    ):
        found = found.union(other)
    return found.where("found_ms is not null").distinct()


def _step(row: Row) -> MigrationStep:
    return MigrationStep(
        migration=row.migration,
        number=row.number,
        from_ms=row.from_ms,
        to_ms=row.to_ms,
        classic_members=row.classic_members,
        consumer_members=row.consumer_members,
        unowned_partition_s=row.unowned_ms / 1000,
    )
