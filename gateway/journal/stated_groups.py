"""Which groups the open files state, so that a reader of these needs no older ones.

A hosted group is stated as a whole, a forwarded one by the event that says so. Each file states a
group before the group's first line in it.
"""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

from gateway.events.event import GatewayEvent
from gateway.events.group_events import GroupForwarded, GroupLoaded, HostingEnded, HostingStarted
from gateway.journal.line_files import LineFiles

FORWARDED_MAX = 10_000
"""Forwarded groups that are remembered, because clients can name groups without end. The next file
does not state those that were forwarded long before."""

Paths: TypeAlias = tuple[Path | None, Path | None]


class _Forwarded(NamedTuple):
    statement: GroupForwarded
    paths: Paths


class StatedGroups:
    """Observes the events of groups in the order of their lines."""

    def __init__(self, files: LineFiles, snapshot_of: Callable[[str], GroupLoaded | None]) -> None:
        """`snapshot_of`: the state of a hosted group as its lines have told it."""
        self._files = files
        self._snapshot_of = snapshot_of
        self._hosted: dict[str, Paths] = {}
        """The open files when each hosted group was last stated."""
        self._forwarded: OrderedDict[str, _Forwarded] = OrderedDict()
        """The latest last."""

    def observe(self, group_id: str, event: GatewayEvent) -> None:
        """Take an event whose line is written."""
        match event:
            case GroupLoaded():
                self._hosted[group_id] = self._files.paths
            case GroupForwarded():
                self._forwarded[group_id] = _Forwarded(event, self._files.paths)
                self._forwarded.move_to_end(group_id)
                if len(self._forwarded) > FORWARDED_MAX:
                    self._forwarded.popitem(last=False)
            case HostingStarted():
                self._forwarded.pop(group_id, None)
            case HostingEnded():
                self._hosted.pop(group_id, None)
            case _:
                pass

    def statement_before(
        self, group_id: str, size: int, *, overflows: bool
    ) -> GroupLoaded | GroupForwarded | None:
        """What to write before lines of a group, of this size, if they are its first ones in a new
        file, which is opened for them."""
        forwarded = self._forwarded.get(group_id)
        stated_in = self._hosted.get(group_id) or (forwarded.paths if forwarded else None)
        if stated_in is None:
            return None
        self._files.make_room(size, overflows=overflows)
        if self._files.paths[overflows] in (None, stated_in[overflows]):
            return None
        if group_id not in self._hosted:
            return forwarded.statement if forwarded else None
        del self._hosted[group_id]
        return self._snapshot_of(group_id)
