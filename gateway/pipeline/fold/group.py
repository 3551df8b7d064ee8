"""The fold of one group: its ordered lines in, the rows of all tables out.

The engine's own figures (`rebalance_ended`, `step_ended`, `readiness_changed`) become rows as they
are; no verdict depends on them.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from gateway.events.group_events import ReadinessChanged, RebalanceEnded, StepEnded
from gateway.pipeline.fold.findings import Findings
from gateway.pipeline.fold.lines import NUMBER_MAX, Line
from gateway.pipeline.fold.members import MemberFold
from gateway.pipeline.fold.offsets import OffsetFold
from gateway.pipeline.fold.order import NO_HOSTINGS, Hosting, Hostings, Placed
from gateway.pipeline.fold.ownership import OwnershipFold
from gateway.pipeline.fold.rows import GroupRow, GroupVerdict, RebalanceRow, StepRow, Tables
from gateway.pipeline.fold.sequences import GroupSequences
from gateway.pipeline.fold.several_logs import SeveralLogs

CLOSED_EVERY = 8_192
"""Lines between two times at which rows are handed out."""


class GroupFold:
    """The fold of one group in one cluster."""

    def __init__(self, cluster_id: str, group_id: str, hostings: Hostings = NO_HOSTINGS) -> None:
        self._of: dict[str, Any] = {"cluster_id": cluster_id, "group_id": group_id}
        self._tables = Tables()
        findings = self._findings = Findings(cluster_id, group_id, hostings)
        others = None if hostings is NO_HOSTINGS else SeveralLogs(hostings, findings)
        self._is_alone = others is None
        """Whether there is one log, so that rows can be handed out early."""
        self._sequences = GroupSequences(cluster_id, group_id)
        self._members = MemberFold(cluster_id, group_id, self._tables)
        self._ownership = OwnershipFold(self._of, self._tables, findings, hostings, others)
        self._offsets = OffsetFold(self._ownership, findings)
        self._hosting: Hosting | None = None
        self._latest: dict[str, Hosting] = {}
        """The hosting of the latest line of each log."""
        self._first_ms: int | None = None
        self._last_ms = self._lines = self._unread = 0
        self._costs: Counter[str] = Counter()
        self._readiness: ReadinessChanged | None = None
        self._steps: tuple[str | None, int, int] = (None, 0, 0)
        """The direction, the migration and the number of the latest step."""

    def take(self, placed: Placed) -> Tables | None:
        """Take the next line. Returns rows that no later line changes, now and then."""
        at_ms, line, hosting, number = placed
        if self._first_ms is None:
            self._first_ms = at_ms
        self._last_ms = at_ms
        if not self._sequences.take(line, number):
            return None  # a repeated line
        self._lines += 1
        if hosting is not self._hosting:
            self._begin_hosting(hosting, line)
        if self._sequences.is_disturbed or line.version == 1 or line.fields is None:
            self._check_lines(line)
        if line.fields is None:
            return None
        self._ownership.take(placed)
        self._offsets.take(placed)
        self._members.take(placed)
        handler = _HANDLERS.get(line.event)
        if handler is not None:
            handler(self, placed, line.fields)
        return self._hand_out() if self._is_alone and self._lines % CLOSED_EVERY == 0 else None

    def _check_lines(self, line: Line) -> None:
        """Doubt what lines that are missing before this one may have changed."""
        gateway_id, sequences, ownership = line.gateway_id, self._sequences, self._ownership
        if line.version == 1:
            self._findings.has_version_1 = True
        # Grants that have not ended show that the end of the group's earlier sequence is missing.
        if sequences.take_new_beginning() and ownership.has_grants(gateway_id):
            sequences.miss_end(line)
            ownership.forget_sequence(gateway_id)
        if sequences.take_hole() and line.event != "group_loaded":
            ownership.doubt_grants(gateway_id)
        if line.fields is None:
            ownership.doubt_grants(gateway_id)

    def _begin_hosting(self, hosting: Hosting, line: Line) -> None:
        """Compare the run with the one before in the same log."""
        self._hosting = hosting
        before = self._latest.get(hosting.gateway_id)
        self._latest[hosting.gateway_id] = hosting
        if before is not None and before.run != hosting.run:
            if hosting.run < before.run or line.at_ms < before.last_ms:
                self._sequences.add_shared_run(line)
            self._ownership.begin_run(hosting.gateway_id)

    def finish(self, unread: int = 0) -> Tables:
        """All other rows, as if nothing followed."""
        tables = self._tables
        self._ownership.finish()
        tables.findings += self._findings.take_rows(None)
        tables.unread += self._sequences.finish(self._last_ms)
        if self._findings.has_version_1:
            tables.unread.append(self._sequences.version_1_row(self._first_ms or 0))
        self._unread += len(tables.unread) + unread
        self._members.finish(self._last_ms)
        tables.groups.append(self._group_row())
        return tables

    def _hand_out(self) -> Tables:
        """The rows so far."""
        for partition in self._ownership.all_partitions():
            if (skip := partition.take_skip(self._last_ms)) is not None:
                self._findings.add(partition, skip)
        self._tables.findings += self._findings.take_rows(self._last_ms)
        self._unread += len(self._tables.unread)
        return self._tables.take_rows()

    def _on_rebalance_ended(self, placed: Placed, ended: RebalanceEnded) -> None:
        line = placed.line
        self._costs["rebalances"] += 1
        for name in _COSTS:
            self._costs[name] += getattr(ended, name)
        self._tables.rebalances.append(
            RebalanceRow(
                **self._of,
                **{name: getattr(ended, name) for name in (*_COSTS, *_REBALANCE)},
                from_ms=ended.started_ms,
                to_ms=placed.at_ms,
                gateway_id=line.gateway_id,
                process_id=line.process_id,
                sequence=line.sequence,
            )
        )

    def _on_step_ended(self, placed: Placed, ended: StepEnded) -> None:
        direction, migration, number = self._steps
        if direction != ended.to_protocol:
            direction, migration, number = ended.to_protocol, migration + 1, 0
        self._steps = direction, migration, number + 1
        self._costs["steps"] += 1
        self._tables.steps.append(
            StepRow(
                **self._of,
                **{name: getattr(ended, name) for name in (*_COSTS, *_STEP)},
                migration=migration,
                number=number + 1,
                from_ms=ended.started_ms,
                to_ms=placed.at_ms,
            )
        )

    def _on_readiness_changed(self, _placed: Placed, readiness: ReadinessChanged) -> None:
        self._readiness = readiness

    def _group_row(self) -> GroupRow:
        verdict, reason = self._verdict()
        ownership, findings, readiness = self._ownership, self._findings, self._readiness
        blocked_by = None
        if readiness is not None and readiness.blocked_by:
            blocker = readiness.blocked_by[0]
            client = f"{blocker.client_id}: " if blocker.client_id else ""
            blocked_by = f"{client}{blocker.reason}"
        names = ("rebalances", *_COSTS, "steps")
        counts: dict[str, Any] = {**self._members.counts()}
        counts |= {name: min(self._costs[name], NUMBER_MAX) for name in names}
        return GroupRow(
            **self._of,
            verdict=verdict,
            reason=reason,
            faults=dict(findings.faults),
            doubts=dict(findings.doubts),
            unread=self._unread,
            lines=self._lines,
            first_grants=ownership.first_grants,
            handovers=ownership.handovers,
            compared=ownership.compared,
            not_compared=dict(ownership.not_compared),
            kind=self._members.kind,
            is_forwarded=ownership.is_forwarded,
            **counts,
            can_convert=readiness.can_convert if readiness is not None else None,
            direction=readiness.direction if readiness is not None else None,
            blocked_by=blocked_by,
            from_ms=self._first_ms or 0,
            to_ms=self._last_ms,
        )

    def _verdict(self) -> tuple[GroupVerdict, str]:
        """The verdict on this group, and what it is based on."""
        ownership, findings = self._ownership, self._findings
        if findings.faults:
            return "not safe", ", ".join(sorted(findings.faults))
        if findings.doubts:
            return "not proven", ", ".join(sorted(findings.doubts))
        if self._unread:
            return "not proven", "lines are missing or could not be read"
        if ownership.compared:
            return "safe", ""
        if ownership.handovers:
            return "not proven", f"not compared: {', '.join(sorted(ownership.not_compared))}"
        return "not proven", "no partition passed from one member to another"


_COSTS = ("partitions_moved", "least_possible", "members_disturbed", "unowned_ms")
_REBALANCE = ("epoch", "cause", "members", "was_interrupted")
_STEP = ("client_id", "client_host", "instance_id", "from_protocol", "to_protocol", "members")
_HANDLERS: Mapping[str, Callable[[GroupFold, Placed, Any], None]] = {
    "rebalance_ended": GroupFold._on_rebalance_ended,
    "step_ended": GroupFold._on_step_ended,
    "readiness_changed": GroupFold._on_readiness_changed,
}
