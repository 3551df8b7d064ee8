"""What is waited for until the cluster has answered."""

import gc

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.groups.relayed_calls import RelayedCalls
from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import Call


async def test_all_calls_are_waited_for(autojump_clock: MockClock) -> None:
    """Calls that begin meanwhile are waited for, too."""
    relayed, has_ended = RelayedCalls(), trio.Event()

    async def wait() -> None:
        await relayed.until_none()
        has_ended.set()

    async with trio.open_nursery() as nursery:
        with relayed.under_way(Call(api=GroupApi.COMMIT)):
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            late = Call(api=GroupApi.HEARTBEAT)
            relayed.add(late)
        await wait_all_tasks_blocked()
        assert not has_ended.is_set()
        relayed.end(late)
        await has_ended.wait()


async def test_a_call_that_nobody_knows_any_more_is_not_waited_for() -> None:
    """Its connection has closed before it could be relayed."""
    relayed = RelayedCalls()
    relayed.add(Call(api=GroupApi.COMMIT))
    gc.collect()
    with trio.fail_after(1):
        await relayed.until_none()
