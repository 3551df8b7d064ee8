"""A request to a hosted group that waits, while the test goes on."""

from collections.abc import Awaitable, Callable

import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.hosted_groups import HostedGroups


class Pending:
    """A request under route, in a task of its own that can be cancelled."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.reply: object = None
        """None before `done` is set, and where the request was cancelled."""
        self.done = trio.Event()

    @classmethod
    async def start(cls, groups: HostedGroups, ask: Callable[[], Awaitable[object]]) -> "Pending":
        """Send it, and return once it waits."""
        pending = cls()

        async def run() -> None:
            with pending.scope:
                pending.reply = await ask()
            pending.done.set()

        groups.nursery.start_soon(run)
        await wait_all_tasks_blocked()
        return pending
