"""A proxy between gateway and cluster that delays requests, delivers them late, and cuts
connections, at random.

In the worst case the gateway sees the connection break, but the broker receives the request later.
The clients of the test itself, in the same process, bypass the proxy.
"""

import contextlib
import random
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import trio

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.apis import ApiKey
from tests.support.wire import Wire, make_frame

Address = tuple[str, int]

COMMITS = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT})
_API_KEY = struct.Struct(">h")
_bypasses_proxy: ContextVar[bool] = ContextVar("_bypasses_proxy", default=True)


@dataclass(slots=True, kw_only=True)
class FaultyProxy:
    """Each duration is drawn between zero and this limit. Limits are seconds."""

    seed: int
    delay_max_s: float = 0.03
    late_by_max_s: float = 1.5
    cut_commits: float = 0.15
    """The probability of each fault."""
    cut_others: float = 0.005
    fates: Counter[str] = field(default_factory=Counter)
    """The fates of requests whose connection was cut."""
    listeners: dict[Address, Address] = field(default_factory=dict)

    async def serve(self, target: Address, stream: trio.SocketStream) -> None:
        """Serve one connection of the gateway."""
        dice = random.Random(f"{self.seed} {sum(self.fates.values())} {trio.current_time()}")
        try:
            broker = await trio.open_tcp_stream(*target)
        except OSError:
            await stream.aclose()
            return
        async with stream, broker, trio.open_nursery() as nursery:
            nursery.start_soon(self._answers, dice, Wire(broker), Wire(stream))
            with contextlib.suppress(EOFError, trio.BrokenResourceError, trio.ClosedResourceError):
                await self._requests(dice, Wire(stream), Wire(broker))
            nursery.cancel_scope.cancel()

    async def _requests(self, dice: random.Random, client: Wire, broker: Wire) -> None:
        while True:
            frame = await client.frame()
            await trio.sleep(dice.uniform(0, self.delay_max_s))
            (api_key,) = _API_KEY.unpack_from(frame)
            probability = self.cut_commits if api_key in COMMITS else self.cut_others
            if dice.random() >= probability:
                await broker.send(make_frame(frame))
                continue
            fate = dice.choice(["dropped", "answer lost", "delivered late"])
            self.fates[f"{ApiKey(api_key).name} {fate}"] += 1
            if fate == "answer lost":
                await broker.send(make_frame(frame))
            await client.stream.aclose()
            if fate == "delivered late":
                await trio.sleep(dice.uniform(0, self.late_by_max_s))
                await broker.send(make_frame(frame))
            await trio.sleep(0.5)  # a broker drops what it has not begun when its client hangs up
            return

    async def _answers(self, dice: random.Random, broker: Wire, client: Wire) -> None:
        try:
            while True:
                frame = await broker.frame()
                await trio.sleep(dice.uniform(0, self.delay_max_s))
                await client.send(make_frame(frame))
        except (EOFError, trio.BrokenResourceError, trio.ClosedResourceError):
            await client.stream.aclose()


@asynccontextmanager
async def faulty_proxy(
    monkeypatch: pytest.MonkeyPatch, targets: tuple[Address, ...], seed: int
) -> AsyncIterator[FaultyProxy]:
    """A proxy in front of these brokers, for tasks started in `through_the_proxy`."""
    proxy = FaultyProxy(seed=seed)
    direct_open = BrokerConnection.open.__func__  # type: ignore[attr-defined]

    async def open_(
        cls: type[BrokerConnection], /, host: str, port: int, **how: Any
    ) -> BrokerConnection:
        address = (host, port)
        if not _bypasses_proxy.get():
            address = proxy.listeners.get(address, address)
        connection: BrokerConnection = await direct_open(cls, *address, **how)
        return connection

    async with trio.open_nursery() as nursery:
        for target in targets:
            serve = partial(proxy.serve, target)
            (listener,) = await nursery.start(partial(trio.serve_tcp, host="127.0.0.1"), serve, 0)
            proxy.listeners[target] = listener.socket.getsockname()[:2]
        monkeypatch.setattr(BrokerConnection, "open", classmethod(open_))
        yield proxy
        monkeypatch.undo()
        nursery.cancel_scope.cancel()


@contextlib.contextmanager
def through_the_proxy() -> Any:
    """Tasks that start in this block, and their children, connect through the proxy."""
    token = _bypasses_proxy.set(False)
    try:
        yield
    finally:
        _bypasses_proxy.reset(token)
