"""Builds the whole `Report`."""

from collections.abc import Mapping

from gateway.pipeline.fold import Key
from gateway.pipeline.report.model import MemberName, OwnershipMap, Report, Totals
from gateway.pipeline.report.numbers.clients import clients
from gateway.pipeline.report.numbers.digest import Digest
from gateway.pipeline.report.numbers.evidence import KINDS, evidence
from gateway.pipeline.report.numbers.sections import story

Drawn = Mapping[Key, tuple[OwnershipMap, tuple[MemberName, ...]]]
"""The ownership maps, with the names of their members."""


def report(digest: Digest, drawn: Drawn) -> Report:
    """The report on everything that the digest sums up. `drawn` has the maps of its worst groups
    whose partitions had owners."""
    end_ms = digest.figures.to_ms or 0
    step_costs, step_costs_left_out = digest.step_costs()
    versions, versions_left_out = clients(digest.versions)
    nothing: tuple[None, tuple[MemberName, ...]] = (None, ())
    return Report(
        totals=_totals(digest),
        groups=tuple(
            story(each, *drawn.get(each.key, nothing), end_ms=end_ms, groups=len(digest.worst))
            for each in digest.worst
        ),
        step_costs=step_costs,
        step_costs_left_out=step_costs_left_out,
        clients=versions,
        clients_left_out=versions_left_out,
        evidence={
            key: evidence(kind, getattr(digest.findings, key)) for key, kind in KINDS.items()
        },
    )


def _totals(digest: Digest) -> Totals:
    figures = digest.figures
    return Totals(
        from_ms=figures.from_ms,
        to_ms=figures.to_ms,
        groups=digest.groups,
        **{name: count for name, count in figures.sums.items() if name in Totals.model_fields},
        rejected_lines=digest.findings.rejected_lines.count,
        unread_events=digest.unread_events,
        unowned_partition_s=figures.sums["unowned_ms"] / 1000,
        unowned_in_migrations_partition_s=figures.unowned_in_migrations_ms / 1000,
    )
