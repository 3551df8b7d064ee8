"""Members by client version and readiness, over all groups."""

from collections import Counter
from collections.abc import Iterable

from pydantic import BaseModel

from gateway.pipeline.report.model import ClientVersion
from gateway.pipeline.report.numbers.limits import short_or_none
from gateway.pipeline.tables.readiness import ReadinessRow

VERSIONS_MAX = 40
REASONS_MAX = 3
"""Reasons shown for a version's blocked groups."""
KEPT_MAX = 1_000
"""Versions and reasons that are counted each; the others are left out."""


class VersionSum(BaseModel):
    """The members of one client version."""

    software_name: str | None
    software_version: str | None
    groups: int = 0
    members: int = 0
    on_consumer: int = 0
    ready: int = 0
    too_old: int = 0
    unknown: int = 0
    blocked: Counter[str] = Counter()
    """By the reason."""

    def add(self, rows: Iterable[ReadinessRow]) -> None:
        """Add the rows of one group."""
        self.groups += 1
        for row in rows:
            self.members += row.members
            if row.protocol == "consumer":
                self.on_consumer += row.members
            elif row.speaks_consumer is None:
                self.unknown += row.members
            elif not row.speaks_consumer:
                self.too_old += row.members
            elif row.can_convert:
                self.ready += row.members
            elif row.blocked_by in self.blocked or len(self.blocked) < KEPT_MAX:
                self.blocked[row.blocked_by or ""] += row.members

    def merge(self, other: "VersionSum") -> None:
        """Add the sums of other groups."""
        self.groups += other.groups
        self.members += other.members
        self.on_consumer += other.on_consumer
        self.ready += other.ready
        self.too_old += other.too_old
        self.unknown += other.unknown
        self.blocked.update(other.blocked)


def clients(sums: Iterable[VersionSum]) -> tuple[tuple[ClientVersion, ...], int]:
    """The versions with most members, and how many are left out."""
    in_order = sorted(sums, key=_order)
    versions = tuple(map(_version, in_order[:VERSIONS_MAX]))
    return versions, len(in_order) - len(versions)


def _order(each: VersionSum) -> tuple[object, ...]:
    names = (each.software_name, each.software_version)
    return -each.members, *((name is None, name or "") for name in names)


def _version(each: VersionSum) -> ClientVersion:
    reasons = sorted(each.blocked.items(), key=lambda item: (-item[1], item[0]))
    return ClientVersion(
        software_name=short_or_none(each.software_name),
        software_version=short_or_none(each.software_version),
        groups=each.groups,
        on_consumer=each.on_consumer,
        ready=each.ready,
        too_old=each.too_old,
        unknown=each.unknown,
        blocked=each.blocked.total(),
        blocked_by=tuple(filter(None, (reason for reason, _ in reasons[:REASONS_MAX]))),
    )
