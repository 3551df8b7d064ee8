"""Builds the whole `Report` from the tables."""

from collections.abc import Mapping

from pydantic import BaseModel
from pyspark.sql import DataFrame, Row

from gateway.pipeline.report.model import Report, Totals
from gateway.pipeline.report.numbers.clients import clients
from gateway.pipeline.report.numbers.evidence import evidence
from gateway.pipeline.report.numbers.gaps import gaps
from gateway.pipeline.report.numbers.groups import SUMS, counts, groups, totals, worst
from gateway.pipeline.report.numbers.limits import with_short_names
from gateway.pipeline.report.numbers.sections import sections
from gateway.pipeline.report.numbers.shares import shares
from gateway.pipeline.report.numbers.steps import costs, steps
from gateway.pipeline.tables.migrations import arrivals

REJECTED = "rejected"


def report(
    tables: Mapping[str, DataFrame], rows_of: Mapping[str, type[BaseModel]], top: int
) -> Report:
    """`tables` and the models of their rows, by name. `top` groups get a section."""
    tables = {
        # Rejected lines have no names, and their text is already short.
        name: table if name == REJECTED else with_short_names(table, rows_of[name])
        for name, table in tables.items()
    }
    counted = shares(tables["timeline"]).persist()
    unowned = gaps(tables["ownership"])
    arrived = arrivals(tables["changes"])
    taken = steps(arrived, tables["migrations"], unowned, counted).persist()
    by_group = groups(tables, shares=counted, gaps=unowned, steps=taken).persist()
    try:
        sums = totals(by_group)
        shown = sections(
            tables, worst(by_group, top), shares=counted, steps=taken, end_ms=sums.to_ms or 0
        )
        step_costs, step_costs_left_out = costs(taken)
    finally:
        for each in (by_group, taken, counted):
            each.unpersist()
    versions, versions_left_out = clients(tables["readiness"])
    rows = evidence(tables, rows_of)
    return Report(
        totals=_totals(
            sums,
            rejected_lines=rows["rejected_lines"].count,
            unread_events=tables[REJECTED].where("group_id is not null").count(),
        ),
        groups=shown,
        step_costs=step_costs,
        step_costs_left_out=step_costs_left_out,
        clients=versions,
        clients_left_out=versions_left_out,
        evidence=rows,
    )


def _totals(sums: Row, *, rejected_lines: int, unread_events: int) -> Totals:
    return Totals(
        from_ms=sums.from_ms,
        to_ms=sums.to_ms,
        **counts(sums, Totals.model_fields.keys() & {"groups", *SUMS}),
        rejected_lines=rejected_lines,
        unread_events=unread_events,
        unowned_partition_s=sums.unowned_ms / 1000,
        unowned_in_migrations_partition_s=sums.unowned_in_migrations_ms / 1000,
    )
