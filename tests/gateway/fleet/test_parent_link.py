"""How a process of a fleet hears its parent, and is heard."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
import trio.testing

from gateway.fleet.parent_link import BEAT, DRAIN, DRAINING, RELOAD, SERVING, ParentLink
from gateway.fleet.supervision import TICK_S


class Obedience:
    """A process's link, and what it has been told."""

    def __init__(self) -> None:
        self.parent, own = socket.socketpair()
        self.link = ParentLink(own)
        self.stop, self.started = trio.Event(), trio.Event()
        self.everything = trio.CancelScope()
        self.reloads = 0

    def reload(self) -> None:
        """Count."""
        self.reloads += 1


@asynccontextmanager
async def obeying() -> AsyncIterator[Obedience]:
    """A process that has started and obeys."""
    process = Obedience()
    process.started.set()
    async with trio.open_nursery() as nursery:
        await nursery.start(
            process.link.obey, process.stop, process.started, process.everything, process.reload
        )
        with trio.fail_after(5):
            yield process
        nursery.cancel_scope.cancel()
    process.parent.close()


async def test_a_process_drains_when_it_is_told() -> None:
    """And ends without when it is told again."""
    async with obeying() as process:
        process.parent.send(DRAIN)
        await process.stop.wait()
        assert not process.everything.cancel_called
        process.parent.send(DRAIN)
        while not process.everything.cancel_called:
            await trio.sleep(0.01)


async def test_a_process_drains_when_its_parent_has_ended() -> None:
    """Nobody would start its successor."""
    async with obeying() as process:
        process.parent.close()
        await process.stop.wait()
        assert not process.everything.cancel_called


async def test_a_process_that_has_not_started_ends_without_a_drain() -> None:
    """As at a signal."""
    unstarted = Obedience()
    async with trio.open_nursery() as nursery:
        await nursery.start(
            unstarted.link.obey,
            unstarted.stop,
            unstarted.started,
            unstarted.everything,
            unstarted.reload,
        )
        unstarted.parent.send(DRAIN)
        await unstarted.stop.wait()
        assert unstarted.everything.cancel_called
        nursery.cancel_scope.cancel()


async def test_a_process_reloads_as_often_as_it_is_told() -> None:
    """It goes on serving."""
    async with obeying() as process:
        process.parent.send(RELOAD * 2)
        while process.reloads < 2:
            await trio.sleep(0.01)
        assert not process.stop.is_set()


async def test_a_process_says_that_it_drains() -> None:
    """Whoever has told it to."""
    process = Obedience()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.link.report_drain, process.stop)
        process.stop.set()
    assert process.parent.recv(64) == DRAINING


async def test_a_process_gives_signs_of_life(autojump_clock: trio.testing.MockClock) -> None:
    """One per tick, and one word once it serves."""
    process = Obedience()
    with trio.move_on_after(3.5 * TICK_S):
        await process.link.beat()
    process.link.say_serving()
    assert process.parent.recv(64) == BEAT * 4 + SERVING


async def test_a_parent_that_reads_nothing_holds_nobody_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It may be stopped, or have ended."""
    process = Obedience()
    with trio.move_on_after(2_000 * TICK_S):
        await process.link.beat()
    process.parent.close()
    process.link.say_serving()
