"""A request costs the same whether the gateway hosts few groups or many. Work is counted, not
timed."""

from trio.testing import MockClock, wait_all_tasks_blocked

from tests.support.hosted_groups import hosted_groups
from tests.support.operations import counted_steps

FEW, MANY = 3, 200
HEARTBEATS = 20


async def steps_among(groups_hosted: int) -> int:
    """What heartbeats of one group's member cost among other groups."""
    async with hosted_groups(max_groups=MANY) as groups:
        for number in range(groups_hosted):
            joined = await groups.native("n", group=f"group-{number}")
            assert not joined.error, joined
        await wait_all_tasks_blocked()
        epoch = joined.member_epoch
        await groups.native("n", epoch, group="group-0")
        with counted_steps() as steps:
            for _ in range(HEARTBEATS):
                assert not (await groups.native("n", epoch, group="group-0")).error
            await wait_all_tasks_blocked()
        return steps.count


async def test_a_heartbeat_costs_the_same_among_many_groups(mock_clock: MockClock) -> None:
    few, many = await steps_among(FEW), await steps_among(MANY)
    assert many <= 1.1 * few
