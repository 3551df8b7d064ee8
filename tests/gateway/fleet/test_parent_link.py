"""How a process of a fleet hears its parent, and is heard."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trio
import trio.testing

from gateway.fleet.parent_link import ParentLink
from gateway.fleet.supervision import TICK_S
from gateway.fleet.words import (
    AskDrain,
    AskRestart,
    Beat,
    Drain,
    GaveUp,
    LogClaimed,
    LogLost,
    OwnerTable,
    Reload,
    Serving,
    StopAccepting,
    Take,
    Word,
    decode,
    encode,
    make_link,
)
from tests.support.until import until


class Obedience:
    """A process's link, and what it has been told."""

    def __init__(self) -> None:
        self.parent, own = make_link()
        self.link = ParentLink(own)
        self.stop, self.started = trio.Event(), trio.Event()
        self.everything = trio.CancelScope()
        self.reloads = 0

    def reload(self) -> None:
        """Count."""
        self.reloads += 1

    def say(self, word: Word) -> None:
        """Say something as its parent."""
        self.parent.send(encode(word))

    def hear(self) -> Word:
        """What the process has said next."""
        return decode(self.parent.recv(4096))


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
    """A process that is told again ends without a drain."""
    async with obeying() as process:
        process.say(Drain())
        await process.stop.wait()
        assert not process.everything.cancel_called
        process.say(Drain())
        await until(lambda: process.everything.cancel_called)


async def test_a_process_drains_when_its_parent_has_ended() -> None:
    """Its successor would not be started."""
    async with obeying() as process:
        process.parent.close()
        await process.stop.wait()
        assert not process.everything.cancel_called


async def test_a_process_that_has_not_started_ends_without_a_drain() -> None:
    """The process ends as at a signal."""
    unstarted = Obedience()
    async with trio.open_nursery() as nursery:
        await nursery.start(
            unstarted.link.obey,
            unstarted.stop,
            unstarted.started,
            unstarted.everything,
            unstarted.reload,
        )
        unstarted.say(Drain())
        await unstarted.stop.wait()
        assert unstarted.everything.cancel_called
        nursery.cancel_scope.cancel()


async def test_a_process_reloads_as_often_as_it_is_told() -> None:
    """The process continues to serve."""
    async with obeying() as process:
        process.say(Reload())
        process.say(Reload())
        await until(lambda: process.reloads >= 2)
        assert not process.stop.is_set()


async def test_a_process_asks_for_a_drain() -> None:
    """The parent decides who drains when."""
    process = Obedience()
    process.link.ask_drain()
    assert process.hear() == AskDrain()


async def test_a_process_says_that_it_has_claimed_the_log() -> None:
    """The parent passes it on to those that it starts later."""
    process = Obedience()
    process.link.say_log_claimed("5" * 32, 7_000_000)
    assert process.hear() == LogClaimed("5" * 32, 7_000_000)


async def test_a_process_says_why_it_has_lost_the_log() -> None:
    """The parent ends all, and says so once."""
    process = Obedience()
    process.link.say_log_lost("it is gone")
    assert process.hear() == LogLost("it is gone")


def test_a_stopped_parent_hears_of_a_lost_log_once_it_continues() -> None:
    """Words that it has not read fill the socket."""
    process = Obedience()
    with suppress(BlockingIOError):
        while True:
            process.link._socket.send(encode(Beat()))
    heard: list[Word] = []

    def go_on() -> None:
        while not heard or heard[-1] == Beat():
            heard.append(process.hear())

    parent = threading.Timer(0.05, go_on)
    parent.start()
    process.link.say_log_lost("it is gone")
    parent.join()
    assert heard[-1] == LogLost("it is gone")


async def test_a_process_gives_signs_of_life(autojump_clock: trio.testing.MockClock) -> None:
    """One per tick, and one word once it serves."""
    process = Obedience()
    with trio.move_on_after(3.5 * TICK_S):
        await process.link.beat()
    process.link.say_serving()
    assert [process.hear() for _ in range(5)] == [Beat()] * 4 + [Serving()]


async def test_a_parent_that_reads_nothing_holds_nobody_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The parent may be stopped, or have ended."""
    process = Obedience()
    with trio.move_on_after(2_000 * TICK_S):
        await process.link.beat()
    process.parent.close()
    process.link.say_serving()


async def test_a_process_gets_orders_about_shards_in_their_sequence() -> None:
    """While it carries out one, others may arrive. It reports what it has closed."""
    orders: list[Word] = [OwnerTable((1, 1)), Take((0, 1), run_id=7), OwnerTable((0, 1))]
    async with obeying() as process:
        for order in orders:
            process.say(order)
        assert [await process.link.orders.receive() for _ in orders] == orders
        await process.link.say_of_shard(GaveUp(1))
        assert process.hear() == GaveUp(1)


async def test_a_process_leaves_new_clients_to_others_when_it_is_told() -> None:
    """The process serves the clients that it has."""
    async with obeying() as process:
        process.say(StopAccepting())
        await process.link.leaving.wait()
        assert not process.stop.is_set()


async def test_a_process_passes_on_who_is_to_be_restarted() -> None:
    """The parent decides when."""
    process = Obedience()
    process.link.ask_restart((0, 2))
    assert process.hear() == AskRestart((0, 2))
