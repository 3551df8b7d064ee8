"""The interface of every state log."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from coordinator.records import DurableRecord
from gateway.state_log.last_events import LastEvents, LogRecord


class StateLogError(Exception):
    """The log could not be read or written; nothing of the batch is in it, unless StateLogUnsure
    says that nobody knows."""


class StateLogRefused(StateLogError):
    """The batch has a record that cannot be written, however well the log is: one too large, or
    with a value that it has no bytes for."""


class StateLogUnreadable(StateLogError):
    """A record of the group cannot be read, so nobody knows what the group is; says which."""


class StateLogUnusable(Exception):
    """The log cannot be opened as it is; says in one line what is wrong and what to do."""


class StateLogUnsure(StateLogError):
    """Whether the batch is in the log is for the log to say: read the group anew."""


class StateLogTaken(Exception):
    """Another gateway has the log now; this one must end."""


class StateLog(Protocol):
    """Keeps the durable records of groups, the newest per key."""

    @property
    def id(self) -> str:
        """Names the log: made once, as lasting as what is in it."""
        ...

    @property
    def outlives_process(self) -> bool:
        """Whether the groups are still in it when the gateway starts again."""
        ...

    @property
    def may_answer(self) -> bool:
        """Whether nobody else can have gone on with the groups meanwhile; to be asked just before
        an answer leaves."""
        ...

    async def read(self, group_id: str) -> Sequence[DurableRecord]:
        """The records that bring the group back, in the order they were written.

        Raises StateLogError, StateLogUnreadable for one of `unreadable_groups`.
        """
        ...

    async def last_events(self, group_id: str) -> LastEvents | None:
        """The events of the group's last batch that had some. Raises StateLogError."""
        ...

    async def group_ids(self) -> Collection[str]:
        """The groups that have records and can be read. Raises StateLogError."""
        ...

    async def unreadable_groups(self) -> Mapping[str, str]:
        """The groups of which a record cannot be read, and why. Raises StateLogError."""
        ...

    async def configs_alone(self) -> Collection[str]:
        """The names with configs that no group has. Raises StateLogError."""
        ...

    async def told_group_ids(self) -> Collection[str]:
        """The groups that have or had events, deleted ones as well. Raises StateLogError."""
        ...

    async def append(self, group_id: str, batch: Sequence[LogRecord]) -> None:
        """Write a batch, all or none; it is durable when this returns.

        Raises StateLogError if nothing of it is in the log, StateLogRefused if nothing ever can be,
        StateLogUnsure if that is not known.
        """
        ...
