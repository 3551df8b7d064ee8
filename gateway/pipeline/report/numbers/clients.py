"""Members by client version and by what they can do, over all groups."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from gateway.pipeline.report.model import ClientVersion
from gateway.pipeline.report.numbers.limits import first_of

VERSIONS_MAX = 40
REASONS_MAX = 3
"""Of what keeps the groups of a version back."""

_VERSION = ("software_name", "software_version")


def clients(readiness: DataFrame) -> tuple[tuple[ClientVersion, ...], int]:
    """Those with most members first, and how many are left out."""
    on_consumer = F.col("protocol") == "consumer"
    knows = F.col("speaks_consumer")
    can = F.coalesce(F.col("can_convert"), F.lit(False))
    by_version = readiness.groupBy(*_VERSION).agg(
        F.countDistinct("cluster_id", "group_id").alias("groups"),
        _members(on_consumer).alias("on_consumer"),
        _members(~on_consumer & knows & can).alias("ready"),
        _members(~on_consumer & ~knows).alias("too_old"),
        _members(~on_consumer & knows.isNull()).alias("unknown"),
        _members(~on_consumer & knows & ~can).alias("blocked"),
        F.sum("members").alias("members"),
    )
    order = (F.desc("members"), *(F.asc_nulls_last(name) for name in _VERSION))
    rows, left_out = first_of(by_version, order, VERSIONS_MAX)
    names = ClientVersion.model_fields.keys() & set(by_version.columns)
    return tuple(ClientVersion(**{name: row[name] for name in names}) for row in rows), left_out


def _members(condition: Column) -> Column:
    return F.coalesce(F.sum(F.when(condition, F.col("members"))), F.lit(0))
