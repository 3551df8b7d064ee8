"""Readiness, and the members of forwarded groups, are reported when they have changed."""

from collections.abc import Hashable
from dataclasses import replace

from coordinator.interface.config import GroupConfig
from gateway.events.event import GatewayEvent
from gateway.events.group_events import (
    ClusterMembersSeen,
    GroupForwarded,
    ReadinessChanged,
    RebalanceEnded,
    RegexResolved,
    StepEnded,
)
from gateway.groups.group_snapshot import GroupSnapshot
from gateway.groups.readiness_reporter import ReadinessReporter
from gateway.quotas.shares import ShareRule
from tests.gateway.groups.test_readiness import MEMBER, snapshot
from tests.support.event_lines import envelope_of


class Reports:
    """The reports on a forwarded group."""

    def __init__(self) -> None:
        self.shown: GroupSnapshot = snapshot(MEMBER)
        self.told: list[GatewayEvent] = []
        self.reporter = ReadinessReporter(
            self._tell, lambda _group_id: self.shown, lambda _group_id: GroupConfig(), ShareRule()
        )

    def _tell(
        self, event: GatewayEvent, group_id: str | None = None, owner: Hashable | None = None
    ) -> None:
        assert group_id == "g"
        self.told.append(event)

    def take_told(self) -> list[type[GatewayEvent]]:
        """The kinds of events since the previous call."""
        reports, self.told = self.told, []
        return [type(event) for event in reports]


def test_a_group_is_reported_once_until_it_changes() -> None:
    """The first report includes it: a reader that begins there knows it."""
    on = Reports()
    for _ in range(2):
        on.reporter.on_watched("g")
    assert on.take_told() == [ClusterMembersSeen, ReadinessChanged]
    on.shown = snapshot(MEMBER, replace(MEMBER, member_id="n"))
    on.reporter.on_watched("g")
    assert on.take_told() == [ClusterMembersSeen]
    on.shown = snapshot(replace(MEMBER, protocols=(("range", b"\0"),)))
    on.reporter.on_watched("g")
    assert on.take_told() == [ClusterMembersSeen, ReadinessChanged]


def test_only_events_that_may_change_readiness_cost_a_look() -> None:
    """Members come and go by the thousand."""
    on = Reports()
    resolved = RegexResolved(regex="a.*", matches=0, added=(), removed=())
    on.reporter.take(envelope_of(resolved, group_id="g"))
    assert on.take_told() == []
    on.reporter.take(envelope_of(GroupForwarded(reason="it has members"), group_id="g"))
    assert on.take_told() == [ReadinessChanged]


def test_a_step_that_ends_costs_a_look() -> None:
    """A step may convert the group to classic, which no rebalance follows. When it is told that
    the group was converted, the group still shows what it was before."""
    on = Reports()
    ended = StepEnded(
        client_id="c",
        client_host="h",
        instance_id=None,
        from_protocol="consumer",
        to_protocol="classic",
        started_ms=0,
        members=1,
        partitions_moved=0,
        least_possible=0,
        members_disturbed=0,
        unowned_ms=0,
    )
    on.reporter.take(envelope_of(ended, group_id="g"))
    assert on.take_told() == [ReadinessChanged]


def test_a_rebalance_that_another_interrupts_costs_no_look() -> None:
    """Each of a thousand members that join together interrupts the rebalance before."""
    on = Reports()
    ended = RebalanceEnded(
        started_ms=0,
        epoch=2,
        cause="member_joined",
        members=1,
        was_interrupted=True,
        partitions_moved=0,
        least_possible=0,
        members_disturbed=0,
        unowned_ms=0,
    )
    on.reporter.take(envelope_of(ended, group_id="g"))
    assert on.take_told() == []
    on.reporter.take(envelope_of(replace(ended, was_interrupted=False), group_id="g"))
    assert on.take_told() == [ReadinessChanged]
