"""Reports whether groups can change their protocol, and who is in forwarded groups, each time when
that has changed.

A hosted group is assessed when a rebalance has ended that no other has interrupted, which has cost
as much, or a step: a conversion to classic, which no rebalance follows, is in force by then. A
forwarded group is assessed when its leader has distributed an assignment, or the cluster has
described it.
"""

from collections.abc import Callable, Hashable

from coordinator.interface.config import GroupConfig
from gateway.events.event import Envelope, EventSink
from gateway.events.group_events import (
    GroupConfigsAltered,
    GroupForwarded,
    GroupLoaded,
    RebalanceEnded,
    StepEnded,
)
from gateway.groups.cluster_members import cluster_members_of
from gateway.groups.group_snapshot import GroupSnapshot
from gateway.groups.readiness import assess_conversion
from gateway.quotas.quota_cache import QuotaCache
from gateway.quotas.shares import ShareRule

REMEMBERED_MAX = 10_000
"""Groups whose latest report is remembered. Beyond that the oldest are reported again."""

_OCCASIONS = (GroupLoaded, RebalanceEnded, StepEnded, GroupConfigsAltered, GroupForwarded)


class ReadinessReporter:
    """A listener of the journal."""

    def __init__(
        self,
        emit: EventSink,
        glance_of: Callable[[str], GroupSnapshot],
        config_of: Callable[[str], GroupConfig],
        names: ShareRule,
    ) -> None:
        self._emit = emit
        self._glance_of = glance_of
        self._config_of = config_of
        self._readiness: QuotaCache[str, Hashable] = QuotaCache(REMEMBERED_MAX, names)
        self._members: QuotaCache[str, Hashable] = QuotaCache(REMEMBERED_MAX, names)

    def take(self, envelope: Envelope) -> None:
        """Look at the group of an event that may have changed its readiness."""
        event, group_id = envelope.fields, envelope.group_id
        if group_id is None or not isinstance(event, _OCCASIONS):
            return
        if not (isinstance(event, RebalanceEnded) and event.was_interrupted):
            self._report_readiness(group_id, self._glance_of(group_id))

    def on_watched(self, group_id: str) -> None:
        """Assess a forwarded group whose members have become known."""
        snapshot = self._glance_of(group_id)
        seen = cluster_members_of(snapshot)
        if seen is None:
            return
        key = hash(str(seen))  # a fixed size, because groups are large
        if self._members.get(group_id) != key:
            self._members.put(group_id, key)
            self._emit(seen, group_id)
        self._report_readiness(group_id, snapshot)

    def _report_readiness(self, group_id: str, snapshot: GroupSnapshot) -> None:
        assessed = assess_conversion(snapshot, self._config_of(group_id))
        key = hash(str(assessed))
        if self._readiness.get(group_id) != key:
            self._readiness.put(group_id, key)
            self._emit(assessed, group_id)
