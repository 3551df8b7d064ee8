"""The latest events of this process, as the JSON lines that the files have, for watchers.

A position grows by one with each event of this process, whatever its group. A watcher that knows
the last position it has seen can continue from there as long as the event after it is still here.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple
from uuid import uuid4

import trio

from gateway.events.event import Envelope
from gateway.events.offset_events import OffsetsCommitted
from gateway.events.sentences import Narrator

EVENTS_MAX = 10_000
BYTES_MAX = 8 * 1024 * 1024
"""The latest event is kept whatever its size."""


class RecentEvent(NamedTuple):
    """One event."""

    position: int
    group_id: str | None
    line: bytes
    """The event's JSON line, without a line end."""
    sentence: str
    """The event in words; empty for a detail."""
    is_commit: bool


class RecentEvents:
    """A bounded memory of events."""

    def __init__(self) -> None:
        self.stream_id = uuid4().hex[:12]
        """The stream that positions belong to: they begin again with each process."""
        self._kept: deque[RecentEvent] = deque()
        self._bytes = 0
        self._narrator = Narrator()
        self._last = 0
        self._waiting = trio.lowlevel.ParkingLot()

    def take(self, envelope: Envelope) -> None:
        """Keep an event."""
        sentence = self._narrator.narrate_event(envelope.fields, envelope.group_id, envelope.at_ms)
        if self._narrator.has_joined:
            self._silence_last_of(envelope.group_id)
        is_commit = isinstance(envelope.fields, OffsetsCommitted)
        self.add(envelope.line.encode(), sentence, envelope.group_id, is_commit=is_commit)

    def _silence_last_of(self, group_id: str | None) -> None:
        """The next sentence stands for the last one of this group as well. Both are of one
        decision, so no watcher has seen the last one yet."""
        for back in range(1, len(self._kept) + 1):
            event = self._kept[-back]
            if event.group_id == group_id and event.sentence:
                self._kept[-back] = event._replace(sentence="")
                return

    def add(
        self, line: bytes, sentence: str, group_id: str | None, *, is_commit: bool = False
    ) -> None:
        """Keep an event that is in words already."""
        self._last += 1
        self._kept.append(RecentEvent(self._last, group_id, line, sentence, is_commit))
        self._bytes += len(line)
        while len(self._kept) > EVENTS_MAX or (self._bytes > BYTES_MAX and len(self._kept) > 1):
            self._bytes -= len(self._kept.popleft().line)
        self._waiting.unpark_all()

    @property
    def first(self) -> int:
        """The position of the oldest event that is still here."""
        return self._last - len(self._kept) + 1

    @property
    def last(self) -> int:
        """The position of the latest event; 0 before the first one."""
        return self._last

    def has_after(self, position: int) -> bool:
        """Whether every event after this position is still here."""
        return self.first - 1 <= position <= self._last

    def after(self, position: int, *, events_max: int) -> list[RecentEvent]:
        """The events after a position, the oldest first."""
        start = max(0, position + 1 - self.first)
        return list(islice(self._kept, start, start + events_max))

    def latest(self, group_id: str | None, *, events_max: int) -> list[RecentEvent]:
        """The latest events of a group, or of the gateway and all groups, the oldest first. Commits
        are left out: they would be most of them."""
        return list(islice(self._of(group_id), events_max))[::-1]

    def _of(self, group_id: str | None) -> Iterator[RecentEvent]:
        for event in reversed(self._kept):
            if group_id in (None, event.group_id) and not event.is_commit:
                yield event

    async def wait_after(self, position: int) -> None:
        """Wait until there is an event after this position."""
        while self._last <= position:
            await self._waiting.park()
