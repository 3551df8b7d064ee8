"""Numbers every event and passes it on: as a JSON line to the files and the topic, as a log line,
and to the listeners.

The state log stores a group's sequence with the events of its last batch. After a SIGKILL only the
lines of that batch can be missing, and the next process writes them again if they are. A deleted
group loses its sequence; if it comes back, it begins another one.
"""

import itertools
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, cast
from uuid import uuid4

import structlog

from gateway.events.catalog import read_line
from gateway.events.event import DecisionEvents, Envelope, GatewayEvent, Listener
from gateway.events.group_events import (
    GroupForwarded,
    GroupLoaded,
    HostingEnded,
    HostingStarted,
)
from gateway.journal.events_topic import EventsTopicWriter
from gateway.journal.history_shares import OTHER_BYTES_MAX, RECORD_BYTES_MAX, HistoryShares
from gateway.journal.line_files import LineFiles
from gateway.journal.stated_groups import StatedGroups
from gateway.journal.written_events import WrittenEvents
from gateway.logs import write_to_log
from gateway.quotas.quota_key import QuotaKey
from gateway.state_log.last_events import LastEvents
from gateway.state_log.log import StateLogError

log = structlog.get_logger()

REPEATABLE_BYTES_MAX = 900 << 10
"""The state log keeps the events of a batch up to this size, and of a larger one only the sequence
number. One record with all its events could exceed Kafka's `max.message.bytes` (1 MiB), and the
group's change would fail with it."""


class _SequenceProgress(NamedTuple):
    """The progress of a group's sequence."""

    began_ms: int
    """0 if an older groupferry began it."""
    sequence: int
    at_ms: int
    """The time of the last event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sinks:
    """Where events go besides the log."""

    files: LineFiles | None = None
    topic: EventsTopicWriter | None = None
    listener: Listener | None = None


class Journal:
    """The event journal of a process. `emit` is for events without a batch in the state log."""

    def __init__(
        self,
        gateway_id: str,
        sinks: Sinks = Sinks(),
        *,
        run: int = 0,
        cluster_id: str | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        recall: Callable[[str], LastEvents | None] = lambda _group_id: None,
        written: WrittenEvents | None = None,
    ) -> None:
        """`run`: the number of this process among those that have opened the state log.
        `cluster_id`: the cluster's own id. `recall` reads a group's last events from the state log.
        It may raise StateLogError. `written`: what earlier processes have written, if that is known
        already."""
        self.gateway_id = gateway_id
        self._run = run
        self._cluster_id = cluster_id
        self._recall = recall
        self._process_id = uuid4().hex
        self._files = sinks.files
        self._topic = sinks.topic
        self._listeners = [] if sinks.listener is None else [sinks.listener]
        self._now_ms = now_ms
        self._sequence = 0
        self._groups: dict[str, _SequenceProgress] = {}
        """The last written event of each group."""
        self._last_began_ms = 0
        self._unplaced_ms = 0
        """The time of the latest line about a group without a sequence."""
        self._beginnings: dict[str, int] = {}
        """When the sequences began whose first batch is on its way to the state log. Lines of this
        process that are told meanwhile belong to them."""
        self._hostings: dict[str, int] = {}
        """The numbers of the hostings under way, by group."""
        self._last_hosting = 0
        self.snapshot_of: Callable[[str], GroupLoaded | None] = lambda _group_id: None
        """The state of a hosted group as its lines have told it."""
        self._shares_of_records = HistoryShares(RECORD_BYTES_MAX, now_ms)
        self._shares = HistoryShares(OTHER_BYTES_MAX, now_ms)
        self._latest_owners: dict[str, QuotaKey] = {}
        """The owner of the request behind the latest of a group's own events that has one."""
        self._overflowing: set[str] = set()
        """The groups whose own events go to files that make way for those of others."""
        self._stated: StatedGroups | None = None
        if sinks.files is not None:
            self._stated = StatedGroups(sinks.files, self._snapshot)
        folder = None if sinks.files is None else sinks.files.folder
        self._written = written or WrittenEvents(folder, gateway_id)
        """What earlier processes have written."""

    def listen(self, listener: Listener) -> None:
        """Pass each event on to this listener, too. It must be quick, and must not raise."""
        self._listeners.append(listener)

    def emit(
        self, event: GatewayEvent, group_id: str | None = None, owner: Hashable | None = None
    ) -> None:
        """Report one event, about a group or about the gateway."""
        self.emit_decision(DecisionEvents((event,), self._now_ms(), owner), group_id)

    def emit_decision(self, decision: DecisionEvents, group_id: str | None) -> None:
        """Report the events of a decision that has nothing to write. Events that an owner causes
        beyond its share of the history get no number and no line, so that no sequence has a gap."""
        if not decision.events:  # a heartbeat that changed nothing
            return
        owner = cast(QuotaKey | None, decision.owner)
        if owner is not None and not self._shares.has_room(owner):
            log.warning("events_left_out", client=str(owner), group_id=group_id)
            return
        before = self._sequence
        envelopes = self.stamp(decision, group_id)
        if group_id is not None and (statement := self._statement_before(group_id, envelopes)):
            self._sequence = before
            self._restate(group_id, statement)
            envelopes = self.stamp(decision, group_id)
        if owner is not None:
            self._shares.spend(owner, sum(len(envelope.line) for envelope in envelopes))
        self.pass_on(envelopes)

    def stamp(self, entry: DecisionEvents, group_id: str | None) -> Sequence[Envelope]:
        """Number events in the sequence of this process. Pass them on immediately."""
        after = began_ms = None
        if group_id is not None:
            place = self._place(group_id)
            if place is None:
                began_ms, after = self._beginnings.get(group_id, entry.at_ms), 0
                self._unplaced_ms = max(self._unplaced_ms, entry.at_ms)
            else:
                began_ms, after, _at_ms = place
        envelopes: list[Envelope] = []
        for event in entry.events:
            self._sequence += 1
            if isinstance(event, HostingStarted) and group_id is not None:
                self._last_hosting += 1
                self._hostings[group_id] = self._last_hosting
            envelope = self._envelope(
                event,
                entry.at_ms,
                group_id,
                self._sequence,
                process_id=self._process_id,
                began_ms=began_ms,
                after=after,
            )
            envelopes.append(envelope)
        return envelopes

    def stamp_batch(
        self, batch: Sequence[DecisionEvents], group_id: str
    ) -> Sequence[Sequence[Envelope]]:
        """Number events in the sequence of a group. Pass them on once the state log has them."""
        place = self._place(group_id)
        if place is None:
            place = _SequenceProgress(self._beginning(batch), 0, 0)
            self._beginnings[group_id] = place.began_ms
        sequences = itertools.count(place.sequence + 1)
        return [
            [
                self._envelope(
                    event, entry.at_ms, group_id, next(sequences), began_ms=place.began_ms
                )
                for event in entry.events
            ]
            for entry in batch
        ]

    def drop_batch(self, group_id: str) -> None:
        """The state log has not got the batch that was stamped last."""
        self._beginnings.pop(group_id, None)

    def _beginning(self, batch: Sequence[DecisionEvents]) -> int:
        """The start time of the sequence that begins with this batch: not before lines that were
        told while the batch waited. No two sequences begin at the same time."""
        self._last_began_ms = max(batch[0].at_ms, self._last_began_ms + 1, self._unplaced_ms)
        return self._last_began_ms

    def _envelope(
        self,
        event: GatewayEvent,
        at_ms: int,
        group_id: str | None,
        sequence: int,
        *,
        process_id: str | None = None,
        began_ms: int | None,
        after: int | None = None,
    ) -> Envelope:
        return Envelope(
            event=event.name,
            schema_version=event.schema_version,
            gateway_id=self.gateway_id,
            cluster_id=self._cluster_id,
            run=self._run,
            hosting=None if group_id is None else self._hostings.get(group_id),
            group_id=group_id,
            process_id=process_id,
            sequence=sequence,
            began_ms=began_ms or None,
            after=after,
            at_ms=at_ms,
            fields=event,
        )

    def pass_on(self, envelopes: Sequence[Envelope], owner: Hashable | None = None) -> None:
        """Write events of one group, or of the gateway, in sequence order. Call once for each.
        `owner`: whose request has caused events with a record. Events that no request has caused,
        such as the end of a session, count towards the client that changed the group last."""
        if not envelopes:
            return
        lines = [envelope.line for envelope in envelopes]
        group_id = envelopes[0].group_id
        is_of_group = envelopes[0].process_id is None
        if is_of_group and group_id is not None:
            self._record_owner(cast(QuotaKey | None, owner), group_id, sum(map(len, lines)))
            if statement := self._statement_before(group_id, envelopes):
                self._restate(group_id, statement)
        self._write(lines, group_id, overflows=is_of_group and group_id in self._overflowing)
        for envelope in envelopes:
            if envelope.group_id is not None and envelope.process_id is None:
                self._groups[envelope.group_id] = _place(envelope)
                self._beginnings.pop(envelope.group_id, None)
            self._follow_hosting(envelope)
        for envelope in envelopes:
            write_to_log(envelope.fields, envelope.group_id)
            for listener in self._listeners:
                listener(envelope)

    def _follow_hosting(self, envelope: Envelope) -> None:
        """Note what states a group, and the end of a hosting."""
        group_id = envelope.group_id
        if group_id is None:
            return
        if isinstance(envelope.fields, HostingEnded):
            self._hostings.pop(group_id, None)
        if self._stated is not None:
            self._stated.observe(group_id, envelope.fields)

    def _snapshot(self, group_id: str) -> GroupLoaded | None:
        return self.snapshot_of(group_id)

    def _statement_before(
        self, group_id: str, envelopes: Sequence[Envelope]
    ) -> GroupLoaded | GroupForwarded | None:
        """What the file needs before these lines of a group."""
        if self._stated is None or not envelopes:
            return None
        if isinstance(envelopes[0].fields, HostingStarted | GroupForwarded | GroupLoaded):
            return None  # they state it
        size = sum(len(envelope.line.encode()) + 1 for envelope in envelopes)
        overflows = envelopes[0].process_id is None and group_id in self._overflowing
        return self._stated.statement_before(group_id, size, overflows=overflows)

    def _restate(self, group_id: str, statement: GroupLoaded | GroupForwarded) -> None:
        """Repeat a statement: it is nothing new for the log and the listeners."""
        (envelope,) = self.stamp(DecisionEvents((statement,), self._now_ms()), group_id)
        self._write([envelope.line], group_id)
        self._follow_hosting(envelope)

    def end_hostings(self, concerns: Callable[[str], bool] = lambda _group_id: True) -> None:
        """Report that the gateway hosts no group any more, because it exits; or none of these."""
        for group_id in list(self._hostings):
            if concerns(group_id):
                self.emit(HostingEnded(cause="gateway_ended"), group_id)

    def _record_owner(self, owner: QuotaKey | None, group_id: str, size: int) -> None:
        """Count what an owner causes. Once it exceeds its share, this group's events go to the
        files of the overflow. They stay there, so that the first half of the group's sequence is
        in the usual files and the second half in the others."""
        if owner is None:
            owner = self._latest_owners.get(group_id)
        if owner is None:
            return
        self._latest_owners[group_id] = owner
        shares = self._shares_of_records
        shares.spend(owner, size)
        if group_id not in self._overflowing and not shares.has_room(owner):
            self._overflowing.add(group_id)
            log.warning("events_overflow", client=str(owner), group_id=group_id)

    def take_up(self, group_id: str) -> None:
        """Continue a group's sequence from the state log, and report what is missing of its last
        batch. Lines that an earlier process has not certainly written are only written.

        Raises StateLogError.
        """
        last = self._recall(group_id)
        if last is None:
            return
        known = self._groups.get(group_id)
        place = _SequenceProgress(last.began_ms, last.sequence, last.at_ms)
        if known is not None and place[:2] <= known[:2]:
            return
        if known is None:  # another version of groupferry may have written these lines
            self._write_again(last, group_id)
        else:
            envelopes = [read_line(line) for line in last.lines]
            self.pass_on([envelope for envelope in envelopes if _place(envelope) > known])
        self._groups[group_id] = place

    def forget(self, group_id: str) -> None:
        """Forget a group's sequence, as the state log has."""
        self._groups.pop(group_id, None)
        self._latest_owners.pop(group_id, None)
        self._overflowing.discard(group_id)

    def forget_groups(self, concerns: Callable[[str], bool]) -> None:
        """Forget the sequences of groups that another process takes over."""
        for group_id in tuple(filter(concerns, self._groups)):
            self.forget(group_id)

    def sequence_of(self, group_id: str) -> int:
        """A group's last sequence number; 0 if it has no sequence, or none that this process has
        taken up."""
        place = self._groups.get(group_id)
        return 0 if place is None else place.sequence

    def has_told(self, group_id: str) -> bool:
        """Whether the group has a sequence."""
        return self._place(group_id) is not None

    def quiet_ms(self, group_id: str) -> int:
        """How long ago the last event in a group's sequence was."""
        place = self._place(group_id)
        return self._now_ms() - (place.at_ms if place is not None else 0)

    def _place(self, group_id: str) -> _SequenceProgress | None:
        """The progress of a group's sequence, None if it has not begun."""
        if group_id not in self._groups:
            with suppress(StateLogError):
                self.take_up(group_id)
        return self._groups.get(group_id)

    def _write_again(self, last: LastEvents, group_id: str) -> None:
        """Write the last events of a group, unless an earlier process has done so."""
        is_written = self._written.has(group_id, last)
        if not is_written:
            self._write(last.lines, group_id)
        elif self._topic is not None and self._written.may_be_on_its_way(last):
            self._topic.write(last.lines, group_id)

    def _write(
        self, lines: Sequence[str], group_id: str | None, *, overflows: bool = False
    ) -> None:
        if self._files is not None and lines:
            data = "".join(f"{line}\n" for line in lines).encode()
            self._files.write(data, overflows=overflows)
        if self._topic is not None:
            self._topic.write(lines, group_id)


def _place(envelope: Envelope) -> _SequenceProgress:
    return _SequenceProgress(envelope.began_ms or 0, envelope.sequence, envelope.at_ms)


def last_events(envelopes: Sequence[Sequence[Envelope]]) -> LastEvents | None:
    """The record for the state log; None if the batch has no events."""
    flat = [envelope for decision in envelopes for envelope in decision]
    if not flat:
        return None
    lines = tuple(envelope.line for envelope in flat)
    is_small = sum(len(line.encode()) for line in lines) <= REPEATABLE_BYTES_MAX
    began_ms, sequence, at_ms = _place(flat[-1])
    return LastEvents(
        sequence=sequence, lines=lines if is_small else (), began_ms=began_ms, at_ms=at_ms
    )
