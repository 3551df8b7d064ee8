"""A parked request to a hosted group, so that the test can continue."""

from collections.abc import Awaitable, Callable

import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.hosted_groups import HostedGroups


class Pending:
    """A request in a task of its own, which the test can cancel."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.reply: object = None
        """The answer. None before `done` is set, or if the request was cancelled."""
        self.done = trio.Event()

    @classmethod
    async def start(cls, groups: HostedGroups, ask: Callable[[], Awaitable[object]]) -> "Pending":
        """Send the request, and return once it waits."""
        pending = cls()

        async def run() -> None:
            with pending.scope:
                pending.reply = await ask()
            pending.done.set()

        groups.nursery.start_soon(run)
        await wait_all_tasks_blocked()
        return pending
