"""What lists show of groups that are not in memory, and of moves."""

import pytest
import trio
from trio.testing import MockClock

from gateway.hosting.inputs import Damage, MoveRequested
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


async def test_lists_show_when_the_state_log_fails_and_when_it_has_recovered(
    autojump_clock: MockClock,
) -> None:
    """A list that gets only what has changed gets the group again."""
    async with hosted_groups() as groups:
        await groups.native("n")
        views, marks = groups.table.views, [await groups.table.views.mark(GROUP)]
        for damage, failed_ms in ((Damage.NONE, 7), (None, None)):
            groups.table._services.limits.log_health.on_write(GROUP, damage, 7)
            assert views.snapshot(GROUP).log_failed_ms == failed_ms
            marks.append(await views.mark(GROUP))
        assert marks[0] == marks[2] != marks[1]


@pytest.mark.parametrize(("kind", "is_adopting"), [(AdoptRequest, True), (ReleaseRequest, False)])
async def test_a_group_that_is_about_to_be_released_is_not_shown_as_adopted(
    autojump_clock: MockClock, kind: type[AnyRequest], is_adopting: bool
) -> None:
    """Its log is being read, or its release waits for the end of a rebalance."""
    async with hosted_groups() as groups:
        groups.table.drivers.driver(GROUP).feed(MoveRequested(kind()))
        assert groups.table.drivers.is_moving(GROUP)
        assert groups.table.views.snapshot(GROUP).is_adopting == is_adopting
