"""What lists show of groups that are not in memory."""

import trio
from trio.testing import MockClock

from tests.support.hosted_groups import GROUP, hosted_groups


async def test_a_group_outside_memory_is_seen_from_its_log(
    autojump_clock: MockClock,
) -> None:
    """An empty group exists, but a group without a log does not."""
    async with hosted_groups() as groups:
        await groups.native("n")
        await groups.native("n", -1)
        await trio.sleep(2)
        assert groups.running == ()
        view = await groups.table.views.view(GROUP)
        assert view is not None
        assert (view[0].group_type, view[0].state, view[0].members) == ("consumer", "Empty", ())
        assert await groups.table.views.view("never") is None
