"""What lists show of groups that are not in memory, and of moves."""

import pytest
import trio
from trio.testing import MockClock

from gateway.hosting.inputs import MoveRequested
from gateway.hosting.move_requests import AdoptRequest, AnyRequest, ReleaseRequest
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


@pytest.mark.parametrize(("kind", "is_adopting"), [(AdoptRequest, True), (ReleaseRequest, False)])
async def test_a_group_that_is_about_to_be_released_is_not_shown_as_adopted(
    autojump_clock: MockClock, kind: type[AnyRequest], is_adopting: bool
) -> None:
    """Its log is being read, or its release waits for the end of a rebalance."""
    async with hosted_groups() as groups:
        groups.table.drivers.driver(GROUP).feed(MoveRequested(kind()))
        assert groups.table.drivers.is_moving(GROUP)
        assert groups.table.views.glance(GROUP).is_adopting == is_adopting
