"""Writes events as a gateway would, with sequence numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping

from gateway.events.event import Envelope, GatewayEvent
from gateway.events.gateway_events import GatewayEnded
from gateway.events.group_events import HostingEnded

START_MS = 1_700_035_200_000
"""2023-11-15 08:00 UTC."""
GROUP = "orders"


class EventWriter:
    """Writes the events of one gateway, which hosts the group; `at_s` are seconds since
    START_MS."""

    def __init__(self, gateway_id: str = "g", process_id: str = "p", group_id: str = GROUP) -> None:
        self.gateway_id = gateway_id
        self.process_id = process_id
        self.group_id = group_id
        self.run = 1
        self.hosting: int | None = 1
        self.lines: list[str] = []
        self._sequences: Counter[str | None] = Counter()
        self._began_ms = START_MS

    def emit(self, at_s: float, *events: GatewayEvent) -> None:
        """Write events of the group with the group's own sequence, as from the state log."""
        for event in events:
            self._sequences[self.group_id] += 1
            sequence = self._sequences[self.group_id]
            self._write(at_s, event, self.group_id, sequence, process_id=None)

    def beside(self, at_s: float, *events: GatewayEvent) -> None:
        """Write events of the group with the sequence of the process."""
        self._beside(at_s, self.group_id, *events)

    def gateway(self, at_s: float, *events: GatewayEvent) -> None:
        self._beside(at_s, None, *events)

    def restart(self, process_id: str) -> None:
        """The next process has the log."""
        self.process_id = process_id
        self.run += 1
        self._sequences[None] = 0

    def end(self, at_s: float) -> None:
        """Write the last events of the process."""
        self.beside(at_s, HostingEnded(cause="gateway_ended"))
        self.gateway(at_s, GatewayEnded())

    def lose(self, events: int = 1) -> None:
        """Skip numbers of the group's sequence, as if lines were missing."""
        self._sequences[self.group_id] += events

    def forget(self, at_s: float) -> None:
        """Let the group's sequence begin again, as that of a group that was deleted."""
        self._sequences[self.group_id] = 0
        self._began_ms = START_MS + round(at_s * 1000)

    def _beside(self, at_s: float, group_id: str | None, *events: GatewayEvent) -> None:
        for event in events:
            self._sequences[None] += 1
            self._write(at_s, event, group_id, self._sequences[None], process_id=self.process_id)

    def _write(
        self,
        at_s: float,
        event: GatewayEvent,
        group_id: str | None,
        sequence: int,
        *,
        process_id: str | None,
    ) -> None:
        is_beside = process_id is not None and group_id is not None
        envelope = Envelope(
            event=event.name,
            schema_version=event.schema_version,
            cluster_id="c",
            run=self.run,
            hosting=None if group_id is None else self.hosting,
            gateway_id=self.gateway_id,
            group_id=group_id,
            process_id=process_id,
            sequence=sequence,
            began_ms=None if group_id is None else self._began_ms,
            after=self._sequences[group_id] if is_beside else None,
            at_ms=START_MS + round(at_s * 1000),
            fields=event,
        )
        self.lines.append(envelope.line)


WriteHistory = Callable[[EventWriter], None]
"""Writes the history of one group."""


def lines_of(histories: Mapping[str, WriteHistory]) -> list[str]:
    """The lines of several histories, each with a group and a process of its name."""
    lines: list[str] = []
    for name, write in histories.items():
        writer = EventWriter(process_id=name, group_id=name)
        write(writer)
        lines += writer.lines
    return lines


def without(line: str, *names: str) -> str:
    """A line without some fields."""
    content = json.loads(line)
    for name in names:
        content.pop(name, None)
        content["fields"].pop(name, None)
    return json.dumps(content)
