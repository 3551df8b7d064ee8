"""One row per group with its findings, its costs and its protocol. The sums of the rows are the
totals; the worst groups get a section."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from gateway.pipeline.group_histories import GROUP

FINDINGS = (
    *("overlaps", "regressions", "lost_commits"),
    *("differences", "missing_events", "contradictions"),
)
SUMS = (
    *FINDINGS,
    "partitions",
    "seeks",
    "resets",
    "unowned_ms",
    "unowned_at_end",
    "unowned_in_migrations_ms",
    "rebalances",
    "members_disturbed",
    "partitions_moved",
    "partitions_moved_least",
    "migrations",
    "migrations_back",
    "migrations_complete",
    "groups_on_consumer",
    "groups_mixed",
    "groups_on_classic",
)
"""Columns that are summed."""

_MEMBERS = "classic_members + consumer_members"


def groups(
    tables: Mapping[str, DataFrame], *, shares: DataFrame, gaps: DataFrame, steps: DataFrame
) -> DataFrame:
    """`SUMS` of each group, its `findings`, its first and last moment (`from_ms`, `to_ms`), and
    whether it `has_members` at the end. Data without a group has a row without a group id."""
    together = reduce(
        lambda some, more: some.unionByName(more, allowMissingColumns=True),
        (*_of_tables(tables), *_of_parts(shares, gaps, steps)),
    )
    summed = together.groupBy(*GROUP).agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in (*SUMS, "members_at_end")),
        F.min("first_ms").alias("from_ms"),
        F.max("last_ms").alias("to_ms"),
    )
    has_members = F.col("members_at_end") > 0
    return summed.withColumns(
        {
            "findings": sum((F.col(name) for name in FINDINGS), F.lit(0)),
            "has_members": has_members,
            "unowned_at_end": F.when(has_members, F.col("unowned_at_end")).otherwise(0),
        }
    )


def totals(groups: DataFrame) -> Row:
    """`SUMS` over all groups, the number of groups, and the first and the last moment."""
    found = groups.agg(
        F.count("group_id").alias("groups"),
        F.min("from_ms").alias("from_ms"),
        F.max("to_ms").alias("to_ms"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in SUMS),
    ).first()
    assert found is not None  # an aggregate of everything is one row
    return found


def counts(row: Row, names: Iterable[str]) -> Mapping[str, int]:
    """Sums of a row as integers: Spark sums them as doubles, which may exceed its own integers."""
    return {name: int(row[name]) for name in names}


def worst(groups: DataFrame, top: int) -> Sequence[Row]:
    """The worst groups: by findings, then by unowned time, in a deterministic order."""
    order = (F.desc("findings"), F.desc("unowned_ms"), F.desc("rebalances"), *GROUP)
    return groups.where(F.col("group_id").isNotNull()).orderBy(*order).limit(top).collect()


def _of_tables(tables: Mapping[str, DataFrame]) -> Iterator[DataFrame]:
    one = F.lit(1)
    ownership = tables["ownership"]
    yield _part(tables["timeline"], times=True)
    yield _part(ownership.where("kind = 'overlap'"), {"overlaps": one})
    owned = ownership.where("kind = 'owner' and basis = 'granted'")
    yield _part(owned.select(*GROUP, "topic", "partition").distinct(), {"partitions": one})
    offsets = tables["offsets"]
    found = {"regressions": "regression", "seeks": "seek", "resets": "reset"}
    yield _part(
        offsets, {name: _one(F.col("finding") == kind) for name, kind in found.items()}, times=True
    )
    missing = F.col("missing_to") - F.col("missing_from") + 1
    yield _part(tables["sequences"], {"missing_events": missing})
    yield _part(tables["contradictions"], {"contradictions": one})
    yield _part(tables["lost_commits"], {"lost_commits": one})
    yield _part(tables["differences"], {"differences": one})
    moved = ("members_disturbed", "partitions_moved", "partitions_moved_least")
    yield _part(tables["rebalances"], {"rebalances": one, **{name: F.col(name) for name in moved}})
    begun = {
        "migrations": one,
        "migrations_back": _one(F.col("direction") == "consumer->classic"),
        "migrations_complete": _one(F.col("is_complete")),
    }
    yield _part(tables["migrations"], begun)


def _of_parts(shares: DataFrame, gaps: DataFrame, steps: DataFrame) -> Iterator[DataFrame]:
    unowned = F.col("unowned_ms")
    yield _part(gaps, {"unowned_ms": unowned, "unowned_at_end": _one(F.col("is_open"))})
    yield _part(steps, {"unowned_in_migrations_ms": unowned})
    yield _part(_last(shares), _protocol_counts())
    yield _part(shares.where("to_ms is null"), {"members_at_end": F.expr(_MEMBERS)})


def _part(
    rows: DataFrame, sums: Mapping[str, Column] | None = None, *, times: bool = False
) -> DataFrame:
    """The contribution of one table; with `times`, also the moments at which its rows begin and
    end."""
    columns = [column.cast("double").alias(name) for name, column in (sums or {}).items()]
    if times:
        columns += [
            F.least("from_ms", "to_ms").alias("first_ms"),
            F.greatest("from_ms", "to_ms").alias("last_ms"),
        ]
    return rows.select(*GROUP, *columns)


def _last(shares: DataFrame) -> DataFrame:
    """The latest share with members."""
    counts = F.struct("classic_members", "consumer_members")
    there = shares.where(f"{_MEMBERS} > 0")
    last = there.groupBy(*GROUP).agg(F.max_by(counts, "from_ms").alias("last"))
    return last.select(*GROUP, "last.*")


def _protocol_counts() -> Mapping[str, Column]:
    has_classic, has_consumer = F.col("classic_members") > 0, F.col("consumer_members") > 0
    return {
        "groups_on_consumer": _one(~has_classic),
        "groups_mixed": _one(has_classic & has_consumer),
        "groups_on_classic": _one(~has_consumer),
    }


def _one(condition: Column) -> Column:
    return F.when(condition, 1).otherwise(0)
