"""Logs, counts and writes down what a group does, in the order in which it was decided."""

from collections.abc import Sequence

import structlog

from gateway.events.event import DecisionEvents
from gateway.events.group_events import GroupForwarded, GroupLoaded, HostingStarted
from gateway.events.group_tracker import GroupTracker
from gateway.groups.clock import Clock
from gateway.hosting.effects import EmitNow, Log
from gateway.hosting.group import HostedGroup
from gateway.journal.journal import Journal
from gateway.observers.counts import GroupCounts
from gateway.observers.offset_reporter import OffsetReporter
from gateway.quotas.quota_key import QuotaKey
from gateway.state_log.last_events import FORGOTTEN
from gateway.state_log.log import StateLog

log = structlog.get_logger()


class GroupReporter:
    """Reports one group. What the events of a decision lead to follows them: costs, and reports of
    commits that they end."""

    def __init__(
        self,
        group: HostedGroup,
        clock: Clock,
        journal: Journal,
        offsets: OffsetReporter,
        counts: GroupCounts,
        *,
        owner: QuotaKey | None,
    ) -> None:
        """`owner`: whose request has named the group first."""
        self.tracker = GroupTracker()
        self._group = group
        self._clock = clock
        self._journal = journal
        self._offsets = offsets
        self._counts = counts
        self._owner = owner

    def log(self, line: Log) -> None:
        """Log a line."""
        self._counts.record_line(line)
        carry_out_now(line, self._group.group_id, self._journal)

    def report_now(self, effect: EmitNow) -> None:
        """Report an event that belongs to no decision."""
        self._counts.record_line(effect)
        carry_out_now(effect, self._group.group_id, self._journal, self._owner)
        self.follow(DecisionEvents((effect.event,), self._clock.now_ms()))

    def report(self, decisions: Sequence[DecisionEvents]) -> None:
        """Report decisions that have nothing to write."""
        self.make_way(decisions)
        for decision in decisions:
            self._journal.emit_decision(decision, self._group.group_id)
            self.follow(decision)

    def make_way(self, decisions: Sequence[DecisionEvents]) -> None:
        """Report open commits before the events that end them."""
        group_id = self._group.group_id
        for decision in decisions:
            if before := self._offsets.make_way(group_id, decision.events):
                self._journal.emit_decision(DecisionEvents(before, decision.at_ms), group_id)

    def follow(self, decision: DecisionEvents) -> None:
        """Have the tracker observe events whose lines are written, and report what follows."""
        following = self.tracker.observe(decision.events, decision.at_ms)
        self._journal.emit_decision(DecisionEvents(following, decision.at_ms), self._group.group_id)

    def report_costs(self) -> None:
        """Report the rebalance and the steps that are over, once the lines of all decisions are
        written."""
        engine = self._group.engine
        if self.tracker.is_measuring and not engine.is_deciding:
            now_ms = self._clock.now_ms()
            ended = self.tracker.settle(engine.core.summarize().state, now_ms)
            self._journal.emit_decision(DecisionEvents(ended, now_ms), self._group.group_id)

    def snapshot(self) -> GroupLoaded:
        """The group as its lines have told it."""
        return self.tracker.snapshot(self._group.engine.core.summarize().state)


def carry_out_now(
    effect: Log | EmitNow, group_id: str, journal: Journal, owner: QuotaKey | None = None
) -> None:
    """Log a line, or report an event. `owner`: whose request has named the group."""
    match effect:
        case Log(level, event, fields, error):
            traceback = {"exc_info": error} if error else {}
            getattr(log, level)(event, group_id=group_id, **fields, **traceback)
        case EmitNow(GroupForwarded() | HostingStarted() as event):
            journal.emit(event, group_id, owner)  # clients can name groups without end
        case EmitNow(event):
            journal.emit(event, group_id)


async def forget_events(group_id: str, journal: Journal, state_log: StateLog) -> None:
    """End the sequence of a deleted group, whose lines are all written. Raises StateLogError."""
    if journal.has_told(group_id):
        await state_log.append(group_id, (FORGOTTEN,))
        journal.forget(group_id)
