"""The interface of every state log."""

from collections.abc import Collection, Sequence
from typing import Protocol

from coordinator.records import DurableRecord


class StateLogError(Exception):
    """The log could not be read or written; nothing of the batch is in it."""


class StateLogUnusable(Exception):  # noqa: N818  (the log is fine with being refused)
    """The log cannot be opened as it is; says in one line what is wrong and what to do."""


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

    async def read(self, group_id: str) -> Sequence[DurableRecord]:
        """The records that bring the group back, in the order they were written.

        Raises StateLogError.
        """
        ...

    async def group_ids(self) -> Collection[str]:
        """The groups that have records. Raises StateLogError."""
        ...

    async def append(self, group_id: str, batch: Sequence[DurableRecord]) -> None:
        """Write a batch, all or none; it is durable when this returns. Raises StateLogError.

        Nobody is left in doubt: who is cancelled meanwhile still learns how it ended.
        """
        ...
