"""One task handles what arrives at many sockets."""

import itertools
import socket
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from gateway.data_path.poller import EVENTS_AT_ONCE, HANG_UP, Poller


@pytest.fixture
async def poller(nursery: trio.Nursery) -> AsyncIterator[Poller]:
    """A running poller."""
    made = Poller()
    nursery.start_soon(made.run)
    yield made
    nursery.cancel_scope.cancel()
    await trio.lowlevel.cancel_shielded_checkpoint()
    made.close()


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets; the first does not block."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    return ours, theirs


async def wait_until_idle() -> None:
    await trio.testing.wait_all_tasks_blocked(0.01)


async def test_each_arrival_is_reported_once(poller: Poller) -> None:
    """Bytes that stay unread are not told again; more bytes are."""
    ours, theirs = pair()
    arrivals: list[int] = []
    with ours, theirs:
        poller.watch(ours, arrivals.append)
        for count in (1, 2):
            theirs.send(b"x")
            await wait_until_idle()
            assert len(arrivals) == count
        assert not arrivals[-1] & HANG_UP
        poller.forget(ours)


async def test_bytes_from_before_are_reported(poller: Poller) -> None:
    ours, theirs = pair()
    arrivals: list[int] = []
    with ours, theirs:
        theirs.send(b"x")
        await wait_until_idle()
        poller.watch(ours, arrivals.append)
        await wait_until_idle()
        assert len(arrivals) == 1
        poller.forget(ours)


async def test_the_end_behind_bytes_is_reported(poller: Poller) -> None:
    """Both may be one event, and no other would follow."""
    ours, theirs = pair()
    arrivals: list[int] = []
    with ours, theirs:
        theirs.send(b"x")
        theirs.close()
        poller.watch(ours, arrivals.append)
        await wait_until_idle()
        assert arrivals[-1] & HANG_UP
        poller.forget(ours)


async def test_a_forgotten_socket_is_not_reported(poller: Poller) -> None:
    """The socket may be forgotten by another handler within the same turn. Forgetting twice is
    harmless, and the socket may be watched again."""
    pairs = [pair(), pair()]
    arrivals: list[int] = []

    def on_ready(_: int) -> None:
        arrivals.append(1)
        for ours, _theirs in pairs:
            poller.forget(ours)

    for ours, _ in pairs:
        poller.watch(ours, on_ready)
    for _, theirs in pairs:
        theirs.send(b"x")
    await wait_until_idle()
    assert len(arrivals) == 1
    poller.watch(pairs[0][0], on_ready)
    await wait_until_idle()
    assert len(arrivals) == 2
    for both in pairs:
        for end in both:
            end.close()


async def test_a_handler_with_more_to_do_comes_after_the_others(poller: Poller) -> None:
    """Other tasks run in between."""
    busy, other = pair(), pair()
    order: list[str] = []

    def on_busy(_: int) -> None:
        order.append("busy")
        if order.count("busy") < 3:
            poller.again(busy[0])
            if order.count("busy") == 1:
                other[1].send(b"x")

    poller.watch(busy[0], on_busy)
    poller.watch(other[0], lambda _: order.append("other"))
    busy[1].send(b"x")
    await wait_until_idle()
    assert order == ["busy", "other", "busy", "busy"]
    for ends in (*busy, *other):
        if ends in (busy[0], other[0]):
            poller.forget(ends)
        ends.close()


async def test_a_handler_is_called_once_in_a_turn_although_more_arrives(poller: Poller) -> None:
    """What it has left to do and the new event are one call. Its calls would grow by one in each
    turn otherwise."""
    ours, theirs = pair()
    calls = 0

    def on_ready(_: int) -> None:
        nonlocal calls
        calls += 1
        theirs.send(b"x")
        poller.again(ours)

    with ours, theirs:
        poller.watch(ours, on_ready)
        theirs.send(b"x")
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        poller.forget(ours)
    assert 0 < calls <= 20 + 1


@pytest.mark.parametrize(("wakes", "before"), [(True, 2), (False, 40)])
async def test_a_woken_task_does_not_wait_for_what_arrives_meanwhile(
    poller: Poller, wakes: bool, before: int
) -> None:
    """Without one, a look for more is cheaper than to let others run."""
    ours, theirs = pair()
    woken = trio.Event()
    order: list[str] = []

    def on_ready(_: int) -> None:
        order.append("event")
        if len(order) < 40:
            theirs.send(b"x")
        if wakes:
            poller.end_turn()
        woken.set()

    async def work() -> None:
        await woken.wait()
        order.append("task")

    with ours, theirs:
        poller.watch(ours, on_ready)
        async with trio.open_nursery() as working:
            working.start_soon(work)
            await wait_until_idle()
            theirs.send(b"x")
        await wait_until_idle()
        # Trio may run one of two tasks twice before the other.
        assert order.index("task") in range(before - 1, before + 1)
        poller.forget(ours)


async def test_a_turn_is_limited(poller: Poller) -> None:
    """Other tasks run however many sockets are ready."""
    pairs = [pair() for _ in range(6 * EVENTS_AT_ONCE)]
    arrivals = 0

    def on_ready(_: int) -> None:
        nonlocal arrivals
        arrivals += 1

    for ours, theirs in pairs:
        poller.watch(ours, on_ready)
        theirs.send(b"x")
    steps = []
    while arrivals < len(pairs):
        await trio.lowlevel.checkpoint()
        steps.append(arrivals)
    # A turn has up to twice as many, and Trio may run one of two tasks twice before the other.
    assert max(b - a for a, b in itertools.pairwise([0, *steps])) <= 4 * EVENTS_AT_ONCE
    for both in pairs:
        poller.forget(both[0])
        for end in both:
            end.close()
