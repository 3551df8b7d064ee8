"""The interface of every state log."""

from collections.abc import Collection, Mapping, Sequence, Set
from typing import Protocol

from coordinator.interface.records import DurableRecord
from gateway.state_log.last_events import LastEvents, LogRecord


class StateLogError(Exception):
    """The log could not be read or written. Except for StateLogUnsure, no record of the batch is in
    it."""


class StateLogRefused(StateLogError):
    """The batch has a record that can never be written: it is too large or cannot be encoded."""


class StateLogUnreadable(StateLogError):
    """A record of the group cannot be read, so its state is unknown. The message names the
    record."""


class StateLogUnusable(Exception):
    """The log cannot be opened. The message says in one line what is wrong and what to do."""


class StateLogLost(StateLogUnusable):
    """The log that this gateway had is gone, or has lost records. This gateway must exit."""


class StateLogUnsure(StateLogError):
    """The batch may or may not be in the log. Load the group again."""


class StateLogTaken(Exception):
    """Another gateway owns the log now. This one must exit."""


class StateLog(Protocol):
    """Keeps the durable records of groups, the newest per key."""

    @property
    def id(self) -> str:
        """The id of the log, generated once and stored with its content."""
        ...

    @property
    def run_id(self) -> int:
        """Greater each time that a gateway opens the log."""
        ...

    @property
    def outlives_process(self) -> bool:
        """Whether the log survives the end of the gateway."""
        ...

    @property
    def may_answer(self) -> bool:
        """Whether this gateway certainly still owns the whole log."""
        ...

    def may_answer_for(self, group_id: str) -> bool:
        """Whether this gateway certainly still owns what has the group. Check it just before an
        answer leaves."""
        ...

    async def read(self, group_id: str) -> Sequence[DurableRecord]:
        """The records of the group in the order of writing.

        Raises StateLogError, StateLogUnreadable for one of `unreadable_groups`.
        """
        ...

    def last_events(self, group_id: str) -> LastEvents | None:
        """The events of the group's last batch with events. Raises StateLogError."""
        ...

    async def group_ids(self) -> Collection[str]:
        """The groups that have records, without unreadable ones. Raises StateLogError."""
        ...

    def may_be_moving(self, group_id: str) -> bool:
        """Whether the group may be about to change its coordinator, as far as the log tells now."""
        ...

    def config_overrides(self, group_id: str) -> Mapping[str, int] | None:
        """The group's own configs; None if the log cannot say now."""
        ...

    async def unreadable_groups(self) -> Mapping[str, str]:
        """The groups with an unreadable record, and the reason, as far as they have been asked for.
        Raises StateLogError."""
        ...

    async def configs_alone(self) -> Set[str]:
        """The names that have configs but no group. Raises StateLogError."""
        ...

    async def told_group_ids(self) -> Collection[str]:
        """The groups that have last events, perhaps nothing else. Raises StateLogError."""
        ...

    async def append(self, group_id: str, batch: Sequence[LogRecord]) -> None:
        """Write a batch, all or none. It is durable when this returns.

        Raises StateLogError if the batch is not in the log, StateLogRefused if it can never be
        written, StateLogUnsure if its fate is unknown.
        """
        ...
