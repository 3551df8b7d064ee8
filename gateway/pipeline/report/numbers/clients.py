"""Members by client version and readiness, over all groups."""

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from gateway.pipeline.report.model import ClientVersion
from gateway.pipeline.report.numbers.limits import first_of

VERSIONS_MAX = 40
REASONS_MAX = 3
"""Reasons shown for a version's blocked groups."""

_VERSION = ("software_name", "software_version")


def clients(readiness: DataFrame) -> tuple[tuple[ClientVersion, ...], int]:
    """The versions with most members, and how many are left out."""
    on_consumer = F.col("protocol") == "consumer"
    knows = F.col("speaks_consumer")
    can = F.coalesce(F.col("can_convert"), F.lit(False))
    # A group has at most one reason, so counts by reason can be added up.
    by_reason = readiness.groupBy(*_VERSION, "blocked_by").agg(
        F.countDistinct("cluster_id", "group_id").alias("groups"),
        _members(on_consumer).alias("on_consumer"),
        _members(~on_consumer & knows & can).alias("ready"),
        _members(~on_consumer & ~knows).alias("too_old"),
        _members(~on_consumer & knows.isNull()).alias("unknown"),
        _members(~on_consumer & knows & ~can).alias("blocked"),
        F.sum("members").alias("members"),
    )
    counts = ("groups", "on_consumer", "ready", "too_old", "unknown", "blocked", "members")
    reason = F.struct(-F.col("blocked"), "blocked_by")
    reasons = F.sort_array(F.collect_list(F.when(F.col("blocked") > 0, reason)))
    by_version = by_reason.groupBy(*_VERSION).agg(
        *(F.sum(name).alias(name) for name in counts),
        F.slice(reasons, 1, REASONS_MAX)["blocked_by"].alias("blocked_by"),
    )
    order = (F.desc("members"), *(F.asc_nulls_last(name) for name in _VERSION))
    rows, left_out = first_of(by_version, order, VERSIONS_MAX)
    return tuple(_version(row) for row in rows), left_out


def _version(row: Row) -> ClientVersion:
    values = {name: row[name] for name in ClientVersion.model_fields}
    return ClientVersion(**{**values, "blocked_by": tuple(filter(None, row.blocked_by))})


def _members(condition: Column) -> Column:
    return F.coalesce(F.sum(F.when(condition, F.col("members"))), F.lit(0))
