"""Frames are received, relayed, held and dropped over real sockets."""

import itertools
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
import trio
import trio.testing

from gateway.data_path.backpressure import BackpressureTimes
from gateway.data_path.server import looking_after
from gateway.data_path.splice import PipePool, StreamEnded
from gateway.data_path.stream import (
    BUFFER_BYTES,
    RECEIVES_PER_TURN,
    Arrival,
    FrameSource,
    StreamResources,
)
from gateway.transport.sockets import send_all
from gateway.transport.tls import RECORDS_PER_RECEIVE
from kafka_codecs import WireError
from tests.support.certificate_authority import CertificateAuthority
from tests.support.tls_pair import say_goodbye, tls_pair
from tests.support.wire import make_frame

START = struct.Struct(">ii")
COPYING = PipePool(max_pipes=0)


@dataclass(frozen=True, slots=True)
class Ends:
    """A peer that sends, a source, a sink, and a peer that receives."""

    sender: trio.SocketStream
    source: FrameSource
    sink: socket.socket
    receiver: trio.SocketStream
    spare: deque[memoryview]
    pressure: BackpressureTimes

    def consume(self) -> bool:
        """Relay what is here."""
        while not self.source.rest and self.source.ready(START.size):
            self.source.relay(self.source.unpack(START)[0])
        return not self.source.rest_is_long and self.source.send_run(self.sink)

    async def relay(self) -> None:
        """Relay every frame until the sender ends."""
        while True:
            if not self.consume():
                await self.source.catch_up(self.sink)
            elif await self.source.arrivals(self.consume) is Arrival.END:
                if not self.source.is_empty():
                    raise StreamEnded
                self.sink.shutdown(socket.SHUT_WR)
                return


async def _pair() -> tuple[trio.SocketStream, socket.socket]:
    """Two ends of a TCP connection."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    ours = await trio.open_tcp_stream("127.0.0.1", port)
    async with listener:
        theirs = await listener.accept()
    return ours, socket.socket(fileno=theirs.socket.detach())


@asynccontextmanager
async def connected_ends(pipes: PipePool) -> AsyncIterator[Ends]:
    """Two TCP connections with a source and a sink between them."""
    sender, incoming = await _pair()
    receiver, sink = await _pair()
    resources = StreamResources(pipes=pipes)
    source = FrameSource(incoming, resources, "client")
    with incoming, sink:
        async with sender, receiver, looking_after(resources):
            yield Ends(sender, source, sink, receiver, resources.spare_buffers, resources.pressure)
    resources.poller.close()


PIPES = pytest.mark.parametrize("pipes", [PipePool(), COPYING], ids=["splice", "copy"])


@pytest.mark.parametrize("fails", [False, True])
async def test_a_stream_may_end_in_the_look_in_which_a_task_takes_over(*, fails: bool) -> None:
    """A broker answers a commit with an error and closes. Its group has the connection's task
    begin, and the end is found in the same turn, in which nothing may be raised."""
    async with connected_ends(COPYING) as ends:
        source = ends.source

        def consume() -> bool:
            if source.ready(START.size):
                source.take_out(source.unpack(START)[0])
                source.end_sleep()
                if fails:
                    raise WireError("a malformed answer")
            return True

        await ends.sender.send_all(make_frame(b"an answer"))
        await ends.sender.send_eof()
        await trio.testing.wait_all_tasks_blocked(0.05)
        source.sleep(consume, lambda: None)
        if fails:
            with pytest.raises(WireError):
                source.raise_error()
        source.raise_error()
        assert await source.arrivals(lambda: True) is Arrival.END


async def _all_from(stream: trio.SocketStream) -> bytes:
    received = bytearray()
    async for chunk in stream:
        received += chunk
    return bytes(received)


SIZES = (4, 5, 100, 8_000, 65_531, 65_532, 65_536, BUFFER_BYTES - 4, BUFFER_BYTES, 1_000_003)


@PIPES
async def test_frames_of_every_size_are_relayed_in_order(pipes: PipePool) -> None:
    """Neither their size nor their position in the buffer matters."""
    frames = [make_frame(bytes([place]) * size) for place, size in enumerate(SIZES * 3)]
    sent = b"".join(frames)
    async with connected_ends(pipes) as ends:
        received = b""

        async def receive() -> None:
            nonlocal received
            received = await _all_from(ends.receiver)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ends.relay)
            nursery.start_soon(receive)
            await ends.sender.send_all(sent)
            await ends.sender.send_eof()
        assert received == sent


@PIPES
async def test_memory_does_not_grow_with_a_frame(pipes: PipePool) -> None:
    """The source relays a frame of 300 MB with a buffer of constant size."""
    size = 300_000_000
    chunk = bytes(1_000_000)
    async with connected_ends(pipes) as ends:
        count = 0

        async def receive() -> None:
            nonlocal count
            async for chunk in ends.receiver:
                count += len(chunk)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ends.relay)
            nursery.start_soon(receive)
            await ends.sender.send_all(struct.pack(">i", size))
            for _ in range(size // len(chunk)):
                await ends.sender.send_all(chunk)
            await ends.sender.send_eof()
        assert count == size + 4
        assert len(ends.spare) <= 1


@PIPES
async def test_a_stopped_receiver_stops_the_sender(pipes: PipePool) -> None:
    """Only the sockets buffer data, however long the sender continues. The wait is counted."""
    async with connected_ends(pipes) as ends, trio.open_nursery() as nursery:
        nursery.start_soon(ends.relay)
        frame = make_frame(bytes(200_000))
        sent = 0

        async def send() -> None:
            nonlocal sent
            while True:
                await ends.sender.send_all(frame)
                sent += len(frame)

        nursery.start_soon(send)
        before = -1
        while before != sent:
            before = sent
            await trio.testing.wait_all_tasks_blocked(0.1)
        assert 0 < sent < 50_000_000
        assert ends.pressure.totals_s()["client"] > 0
        nursery.cancel_scope.cancel()


@PIPES
@pytest.mark.parametrize("arrived", [8, 100, 150_000])
async def test_a_truncated_frame_is_an_error(pipes: PipePool, arrived: int) -> None:
    """The received bytes are relayed, and the caller learns that the sink is torn."""
    async with connected_ends(pipes) as ends, trio.open_nursery() as nursery:
        nursery.start_soon(_all_from, ends.receiver)

        async def send() -> None:
            await ends.sender.send_all(make_frame(bytes(200_000))[:arrived])
            await ends.sender.send_eof()

        nursery.start_soon(send)
        with pytest.raises(StreamEnded):
            await ends.relay()
        ends.sink.shutdown(socket.SHUT_WR)


async def test_held_and_dropped_frames_keep_the_stream_in_sync() -> None:
    """Relayed, held and dropped frames alternate, within one buffer and across several."""
    for size in (4, 1000, 100_000, 500_000):
        async with connected_ends(COPYING) as ends, trio.open_nursery() as nursery:
            frames = [make_frame(bytes([place]) * size) for place in range(9)]
            nursery.start_soon(ends.sender.send_all, b"".join(frames))
            received = bytearray()

            async def receive(into: bytearray = received, ends: Ends = ends) -> None:
                while True:
                    into += await ends.receiver.receive_some()

            nursery.start_soon(receive)
            for place in range(9):
                while not ends.source.ready(START.size):
                    await ends.source.flush(ends.sink)
                    assert await ends.source.fill()
                assert ends.source.unpack(START)[0] == size
                if place % 3 == 0:
                    ends.source.relay(size)
                    while ends.source.rest or ends.source.has_run:
                        await ends.source.catch_up(ends.sink)
                        assert not ends.source.rest or await ends.source.fill()
                elif place % 3 == 1:
                    await ends.source.flush(ends.sink)
                    assert await ends.source.hold(size) == frames[place][4:]
                else:
                    await ends.source.drop(size)
            await ends.source.flush(ends.sink)
            assert ends.source.is_empty()
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert bytes(received) == frames[0] + frames[3] + frames[6]
            nursery.cancel_scope.cancel()


async def test_a_patch_changes_one_field_of_the_next_frame() -> None:
    """Runs of patched frames leave as one piece."""
    async with connected_ends(COPYING) as ends:
        await ends.sender.send_all(struct.pack(">iiiiii", 8, 1, 2, 8, 3, 4))
        assert await ends.source.fill()
        for value in (10, 30):
            ends.source.patch(4, value)
            ends.source.relay(8)
        assert ends.source.send_run(ends.sink)
        assert await ends.receiver.receive_some() == struct.pack(">iiiiii", 8, 10, 2, 8, 30, 4)


async def test_an_idle_connection_has_no_buffer() -> None:
    """A partial head is kept without one."""
    async with connected_ends(COPYING) as ends, trio.open_nursery() as nursery:
        await ends.sender.send_all(b"\0\0")
        assert await ends.source.fill()
        assert not ends.source.is_empty()
        nursery.start_soon(ends.source.fill)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(ends.spare) == 1
        await ends.sender.send_all(b"\0\4abcd")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert bytes(ends.source.head()) == b"\0\0\0\4abcd"


async def test_a_connection_has_no_buffer_while_its_request_is_answered() -> None:
    """A group of a thousand parked JoinGroups would hold 128 MiB."""
    async with connected_ends(COPYING) as ends:
        await ends.sender.send_all(b"\0\0\0\4abcd" * 2)
        while not ends.source.ready(16):
            assert await ends.source.fill()
        assert await ends.source.hold(4) == b"abcd"
        assert len(ends.spare) == 1, "the next request is kept without it"
        assert await ends.source.hold(4) == b"abcd"
        assert len(ends.spare) == 1
        await ends.sender.send_all(b"\0\0\0\4abcd")
        assert await ends.source.arrivals(lambda: not ends.source.take_out(4)) is Arrival.WORK
        assert len(ends.spare) == 1


async def test_a_frame_that_waits_for_a_task_keeps_no_buffer() -> None:
    """A thousand connections whose brokers are being opened would hold 128 MiB."""
    async with connected_ends(COPYING) as ends:
        await ends.sender.send_all(b"\0\0\0\4abcd" * 2)
        assert await ends.source.arrivals(lambda: not ends.source.ready(16)) is Arrival.WORK
        assert len(ends.spare) == 1
        ends.source.relay(4)
        await ends.sender.send_all(b"\0\0\0\4abcd")
        await ends.source.flush(ends.sink)
        while not ends.source.ready(16):
            assert await ends.source.fill()
        assert ends.consume()
        ends.sink.shutdown(socket.SHUT_WR)
        assert await _all_from(ends.receiver) == b"\0\0\0\4abcd" * 3


async def test_frames_are_relayed_while_the_task_waits() -> None:
    """None of the frames wakes the task."""
    async with connected_ends(COPYING) as ends, trio.open_nursery() as nursery:
        woken = trio.Event()

        async def wait() -> None:
            await ends.source.arrivals(ends.consume)
            woken.set()

        nursery.start_soon(wait)
        for size in (4, 100, 40_000):
            frame = make_frame(bytes(size))
            await ends.sender.send_all(frame[:7])
            await trio.testing.wait_all_tasks_blocked(0.01)
            await ends.sender.send_all(frame[7:])
            assert await _exactly(ends.receiver, len(frame)) == frame
        assert not woken.is_set()
        assert ends.source.waits_since_s is not None
        nursery.cancel_scope.cancel()


async def _exactly(stream: trio.SocketStream, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        received += await stream.receive_some(count - len(received))
    return bytes(received)


async def test_the_end_right_behind_bytes_wakes_the_task() -> None:
    """A short receive would otherwise mean that nothing more is here."""
    for _ in range(20):
        async with connected_ends(COPYING) as ends:
            await ends.sender.send_all(make_frame(b"1234"))
            await ends.sender.send_eof()
            with trio.fail_after(5):
                assert await ends.source.arrivals(ends.consume) is Arrival.END
            assert await _exactly(ends.receiver, 8) == make_frame(b"1234")


async def test_bytes_that_came_while_the_task_worked_are_not_missed() -> None:
    """Their edge has passed."""
    async with connected_ends(COPYING) as ends, trio.open_nursery() as nursery:
        await ends.sender.send_all(make_frame(b"1234"))
        assert await ends.source.fill()
        await ends.sender.send_all(make_frame(b"5678"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        ends.consume()
        nursery.start_soon(ends.source.arrivals, ends.consume)
        with trio.fail_after(5):
            assert await _exactly(ends.receiver, 16) == make_frame(b"1234") + make_frame(b"5678")
        nursery.cancel_scope.cancel()


async def test_an_error_while_relaying_is_raised_in_the_task() -> None:
    """The poller continues for others."""

    def fail() -> bool:
        raise BrokenPipeError("the sink is gone")

    async with connected_ends(COPYING) as ends, trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(BrokenPipeError):
                await ends.source.arrivals(fail)
            assert ends.consume()
            await ends.source.arrivals(ends.consume)

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked(0.01)
        await ends.sender.send_all(make_frame(b"1234"))
        with trio.fail_after(5):
            assert await _exactly(ends.receiver, 8) == make_frame(b"1234")
        nursery.cancel_scope.cancel()


async def test_a_cancelled_wait_keeps_what_has_arrived() -> None:
    """The source can be used on, and what comes after the cancellation is not lost."""
    async with connected_ends(COPYING) as ends:
        await ends.sender.send_all(make_frame(b"1234")[:6])
        with trio.move_on_after(0.05) as given_up:
            await ends.source.arrivals(ends.consume)
        assert given_up.cancelled_caught
        assert ends.source.waits_since_s is None
        assert not ends.source.is_empty()
        await ends.sender.send_all(make_frame(b"1234")[6:])
        await trio.testing.wait_all_tasks_blocked(0.01)
        with trio.move_on_after(0.05):
            await ends.source.arrivals(ends.consume)
        assert await _exactly(ends.receiver, 8) == make_frame(b"1234")


async def test_a_source_that_never_runs_dry_lets_others_run() -> None:
    """Neither the poller's task nor its own holds the processor for long."""
    sock = Endless()
    ours, theirs = socket.socketpair()
    resources = StreamResources(pipes=COPYING)
    with ours, theirs:
        sock.fd = ours.fileno()
        ours.setblocking(False)
        source = FrameSource(cast("socket.socket", sock), resources, "client")

        def discard() -> bool:
            source.relay_bytes(len(source.head()))
            return source.send_run(cast("socket.socket", sock))

        async with looking_after(resources), trio.open_nursery() as nursery:
            nursery.start_soon(source.arrivals, discard)
            theirs.send(b"x")
            receives = []
            for _ in range(20):
                await trio.lowlevel.checkpoint()
                receives.append(sock.receives)
            nursery.cancel_scope.cancel()
            source.close()
        steps = [b - a for a, b in itertools.pairwise([0, *receives])]
        assert 0 < max(steps) <= 2 * RECEIVES_PER_TURN


class Endless:
    """A socket that has always more bytes, and takes everything."""

    fd = -1
    receives = 0

    def fileno(self) -> int:
        return self.fd

    def recv_into(self, view: memoryview) -> int:
        self.receives += 1
        return len(view)

    def send(self, data: memoryview) -> int:
        return len(data)


@pytest.mark.parametrize("size", [100, 20_000, 200_000])
@pytest.mark.parametrize("ending", ["silence", "goodbye", "close"])
async def test_bytes_that_tls_has_already_read_are_relayed(
    tmp_path: Path, size: int, ending: str
) -> None:
    """No event reports them. A peer may also say goodbye in TLS and keep the socket open."""
    authority = CertificateAuthority.in_folder(tmp_path)
    resources = StreamResources()
    receiver, sink = await _pair()
    sent = b"".join(make_frame(bytes([place % 256]) * size) for place in range(600_000 // size))
    async with (
        receiver,
        looking_after(resources),
        tls_pair(authority, authority.trusting()) as (client, server),
        trio.open_nursery() as nursery,
    ):
        source = FrameSource(server, resources, "client")
        ends = Ends(receiver, source, sink, receiver, resources.spare_buffers, resources.pressure)
        ended = trio.Event()

        async def relay() -> None:
            await ends.relay()
            ended.set()

        nursery.start_soon(relay)
        nursery.start_soon(send_all, client, sent)
        with trio.fail_after(10):
            assert await _exactly(receiver, len(sent)) == sent
            if ending == "goodbye":
                say_goodbye(client)
            elif ending == "close":
                client.close()
            if ending != "silence":
                await ended.wait()
        nursery.cancel_scope.cancel()
        source.close()
    sink.close()


async def test_short_tls_records_that_a_receive_leaves_are_relayed(tmp_path: Path) -> None:
    """A receive takes a limited number of them, and no event reports the others."""
    authority = CertificateAuthority.in_folder(tmp_path)
    resources = StreamResources()
    receiver, sink = await _pair()
    sent = make_frame(b"!" * 5 * RECORDS_PER_RECEIVE)
    async with (
        receiver,
        looking_after(resources),
        tls_pair(authority, authority.trusting()) as (client, server),
        trio.open_nursery() as nursery,
    ):
        source = FrameSource(server, resources, "client")
        ends = Ends(receiver, source, sink, receiver, resources.spare_buffers, resources.pressure)
        nursery.start_soon(ends.relay)
        for at in range(len(sent)):
            client._call(client._encrypt, memoryview(sent)[at : at + 1])
        client._flush()
        with trio.fail_after(10):
            assert await _exactly(receiver, len(sent)) == sent
        nursery.cancel_scope.cancel()
        source.close()
    sink.close()


async def test_a_source_that_goes_to_sleep_relays_more_than_a_turn(tmp_path: Path) -> None:
    """The poller waits for an event meanwhile, and none may come."""
    authority = CertificateAuthority.in_folder(tmp_path)
    resources = StreamResources()
    receiver, sink = await _pair()
    sent = make_frame(b"!" * (RECEIVES_PER_TURN + 3) * RECORDS_PER_RECEIVE)
    async with (
        receiver,
        looking_after(resources),
        tls_pair(authority, authority.trusting()) as (client, server),
        trio.open_nursery() as nursery,
    ):
        for at in range(len(sent)):
            client._call(client._encrypt, memoryview(sent)[at : at + 1])
        client._flush()
        source = FrameSource(server, resources, "client")
        ends = Ends(receiver, source, sink, receiver, resources.spare_buffers, resources.pressure)
        await trio.testing.wait_all_tasks_blocked()
        source.sleep(ends.consume, lambda: nursery.start_soon(ends.relay))
        with trio.fail_after(10):
            assert await _exactly(receiver, len(sent)) == sent
        nursery.cancel_scope.cancel()
        source.close()
    sink.close()
