"""What the page shows of a group besides the verdict, which depends on none of it: the members and
their client versions, and the engine's own figures of rebalances, steps and readiness."""

from collections import Counter
from typing import Any

from gateway.client_versions import speaks_consumer
from gateway.events.group_events import ReadinessChanged, RebalanceEnded, StepEnded
from gateway.events.offset_events import NO_MEMBER
from gateway.pipeline.fold.lines import NUMBER_MAX
from gateway.pipeline.fold.order import EventFold, Source
from gateway.pipeline.fold.rows import ClientRow, RebalanceRow, StepRow, Tables

_COSTS = ("partitions_moved", "least_possible", "members_disturbed", "unowned_ms")
_REBALANCE = (*_COSTS, "epoch", "cause", "members", "was_interrupted")
_STEP = (
    *(*_COSTS, "client_id", "client_host", "instance_id", "from_protocol", "to_protocol"),
    "members",
)


class FiguresFold(EventFold):
    """The figures of one group. Takes its lines in their order."""

    def __init__(self, cluster_id: str, group_id: str, tables: Tables) -> None:
        self._of: dict[str, Any] = {"cluster_id": cluster_id, "group_id": group_id}
        self._tables = tables
        self._members: dict[str, str] = {}
        """The protocol of each member."""
        self._clients: dict[str, tuple[str | None, str | None]] = {}
        """The name and version with which each member introduced itself."""
        self._kind: str | None = None
        self._readiness: ReadinessChanged | None = None
        self._costs: Counter[str] = Counter()
        self._steps: tuple[str | None, int, int] = (None, 0, 0)
        """The direction, the migration and the number of the latest step."""

    def finish(self, to_ms: int) -> None:
        """Make the rows of those that are there at the end."""
        versions = Counter(
            (*self._clients.get(member_id, (None, None)), protocol)
            for member_id, protocol in self._members.items()
        )
        for (name, version, protocol), count in versions.items():
            self._tables.clients.append(
                ClientRow(
                    **self._of,
                    software_name=name,
                    software_version=version,
                    protocol=protocol,
                    members=count,
                    speaks_consumer=speaks_consumer(name, version),
                    at_ms=to_ms,
                )
            )

    def columns(self) -> dict[str, Any]:
        """The group's columns at the end."""
        protocols = list(self._members.values())
        readiness, blocked_by = self._readiness, None
        if readiness is not None and readiness.blocked_by:
            blocker = readiness.blocked_by[0]
            client = f"{blocker.client_id}: " if blocker.client_id else ""
            blocked_by = f"{client}{blocker.reason}"
        names = ("rebalances", *_COSTS, "steps")
        return {
            "kind": self._kind,
            "members": len(protocols),
            "classic_members": protocols.count("classic"),
            "consumer_members": protocols.count("consumer"),
            **{name: min(self._costs[name], NUMBER_MAX) for name in names},
            "can_convert": readiness.can_convert if readiness is not None else None,
            "direction": readiness.direction if readiness is not None else None,
            "blocked_by": blocked_by,
        }

    def _on_rebalance_ended(self, source: Source, ended: RebalanceEnded) -> None:
        self._costs["rebalances"] += 1
        for name in _COSTS:
            self._costs[name] += getattr(ended, name)
        self._tables.rebalances.append(
            RebalanceRow(
                **self._of,
                **{name: getattr(ended, name) for name in _REBALANCE},
                from_ms=ended.started_ms,
                to_ms=source.at_ms,
                **source.columns,
            )
        )

    def _on_step_ended(self, source: Source, ended: StepEnded) -> None:
        direction, migration, number = self._steps
        if direction != ended.to_protocol:
            direction, migration, number = ended.to_protocol, migration + 1, 0
        self._steps = direction, migration, number + 1
        self._costs["steps"] += 1
        self._tables.steps.append(
            StepRow(
                **self._of,
                **{name: getattr(ended, name) for name in _STEP},
                migration=migration,
                number=number + 1,
                from_ms=ended.started_ms,
                to_ms=source.at_ms,
            )
        )

    def _on_readiness_changed(self, _source: Source, readiness: ReadinessChanged) -> None:
        self._readiness = readiness

    def _on_member_joined(self, _source: Source, event: Any) -> None:
        self._members[event.member_id] = event.protocol

    def _on_member_left(self, _source: Source, event: Any) -> None:
        self._members.pop(event.member_id, None)

    _on_member_fenced = _on_member_left

    def _on_member_replaced(self, _source: Source, event: Any) -> None:
        member = self._members.pop(event.member_id, None)
        if member is not None and event.replaced_by is not None:
            self._members.setdefault(event.replaced_by, member)

    def _on_member_switched(self, _source: Source, event: Any) -> None:
        if event.member_id in self._members:
            self._members[event.member_id] = event.protocol

    def _on_client_seen(self, _source: Source, event: Any) -> None:
        if event.member_id != NO_MEMBER:
            self._clients[event.member_id] = event.software_name, event.software_version

    def _on_group_loaded(self, _source: Source, event: Any) -> None:
        self._kind = event.kind or self._kind
        self._members = {member.member_id: member.protocol or "classic" for member in event.members}

    _on_cluster_members_seen = _on_group_loaded

    def _on_group_created(self, _source: Source, event: Any) -> None:
        self._kind = event.kind

    def _on_group_converted(self, _source: Source, event: Any) -> None:
        self._kind = event.direction.rpartition(">")[2]

    def _on_group_deleted(self, _source: Source, _event: Any) -> None:
        self._members.clear()

    def _on_hosting_ended(self, _source: Source, event: Any) -> None:
        if event.cause != "gateway_ended":
            self._members.clear()
