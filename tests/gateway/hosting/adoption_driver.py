"""Carries out an adoption in front of a real coordinator, one connection per requester."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from time import time_ns
from typing import Any

import trio

from coordinator.interface.events import AdoptionEnded, AdoptionMoved
from coordinator.interface.records import AdoptionRecord, AdoptionState
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from gateway.hosting.adoption import Adopting
from gateway.hosting.effects import Ask, Describe, Requester
from gateway.hosting.forwarded import WatchedGroup
from gateway.hosting.identity import AnchorIds, Gateway
from gateway.hosting.routes import GroupSituation
from gateway.hosting.states import AdoptionStage as Stage
from tests.gateway.hosting.move_parts import MoveParts, move_parts
from tests.support.group_client import Address, GroupClient, find_coordinator

Hook = Callable[[], Awaitable[object]]


def now_ms() -> int:
    """Wall-clock milliseconds."""
    return time_ns() // 1_000_000


@dataclass
class Coordinator:
    """The group in the cluster, and what the log knows of its adoption."""

    address: Address
    group: str
    watched: WatchedGroup
    gateway: Gateway = field(default_factory=lambda: Gateway(log_id="log-1", run_id=1))
    stored: AdoptionState | None = None
    anchor: AnchorIds | None = None

    async def adopt(self, hooks: Mapping[Stage, Hook] | None = None) -> Adopting:
        """Adopt the group, or continue with an adoption that the log knows. `hooks` run when a
        stage is reached, before its first request."""
        records = [] if self.stored is None else [AdoptionRecord(value=self.stored)]
        parts = move_parts(self.group, self.gateway, *records)
        parts.rules.watched.group = self._watched_group  # type: ignore[method-assign]
        machine = Adopting(parts)
        await _Run(self, parts, machine, dict(hooks or {})).run()
        return machine

    def _watched_group(self, group_id: str) -> WatchedGroup:
        assert group_id == self.group
        return self.watched

    async def killed_at(self, stage: Stage) -> None:
        """Begin to adopt the group, and stop when a stage is reached. Its requests may still
        arrive."""
        with trio.CancelScope() as killed:

            async def kill() -> None:
                killed.cancel()

            await self.adopt({stage: kill})
        self.gateway = replace(self.gateway, run_id=self.gateway.run_id + 1)


Report = Callable[[], None]
"""Tells the machine what came of an effect."""


@dataclass
class _Run:
    at: Coordinator
    parts: MoveParts
    machine: Adopting
    hooks: dict[Stage, Hook]
    has_given_up: set[str] = field(default_factory=set)

    async def run(self) -> None:
        send, receive = trio.open_memory_channel[Report](100)
        async with _requesters(self.at.address) as requesters, trio.open_nursery() as nursery:

            async def carry_out(effect: Any) -> None:
                await send.send(await self._carry_out(effect, requesters))

            async def advance() -> None:
                self.machine.advance(now_ms())
                hook = self.hooks.pop(self.machine.stage, None)
                for effect in self.parts.take():
                    nursery.start_soon(carry_out, effect)
                if hook is not None:
                    await hook()

            self.machine.begin((), now_ms())
            await advance()
            while not self.machine.is_over:
                at_ms = self.machine.next_ms()
                wait_s = 60.0 if at_ms is None else max(0, at_ms - now_ms()) / 1000
                with trio.move_on_after(wait_s):
                    (await receive.receive())()
                await advance()
                for member_id in self._given_up():
                    assert self.machine.recall is not None
                    self.machine.recall.let_go(member_id)
                    await advance()
            nursery.cancel_scope.cancel()

    def _given_up(self) -> list[str]:
        """The test's members give up everything immediately when they are recalled."""
        if self.machine.situation is not GroupSituation.RECALLED or self.machine.guard is None:
            return []
        news = [member for member in self.at.watched.members if member not in self.has_given_up]
        self.has_given_up.update(news)
        return news

    async def _carry_out(
        self, effect: Any, requesters: Mapping[Requester, BrokerConnection]
    ) -> Report:
        machine, result = self.machine, None
        match effect:
            case Describe():
                async with await BrokerConnection.open(*self.at.address) as connection:
                    result = await GroupClient(connection, self.at.group).describe()
            case AdoptionMoved(adoption=adoption):
                self.at.stored = adoption
                return lambda: machine.on_stored(effect, is_durable=True, now_ms=now_ms())
            case AdoptionEnded():
                self.at.anchor, self.at.stored = machine.anchor_ids, None
                return lambda: machine.on_stored(effect, is_durable=True, now_ms=now_ms())
            case Ask(requester, message):
                try:
                    result = await requesters[requester].ask(message)
                except UpstreamError as error:
                    reason = str(error)
                    return lambda: machine.on_failed(self._end(effect), reason, now_ms())
            case _:
                pass
        return lambda: machine.on_done(self._end(effect), result, now_ms())

    def _end(self, step: Any) -> Any:
        """Take the step out, as the move does when the result is here."""
        self.machine.steps.remove(step)
        return step


@asynccontextmanager
async def _requesters(address: Address) -> AsyncIterator[Mapping[Requester, BrokerConnection]]:
    requesters = {
        requester: await BrokerConnection.open(*address, client_id="groupferry")
        for requester in Requester
    }
    try:
        yield requesters
    finally:
        for connection in requesters.values():
            connection.close()


async def coordinator(address: Address, watched: WatchedGroup) -> Coordinator:
    """The coordinator of a group."""
    at = await find_coordinator(address, watched.group_id)
    return Coordinator((at.host, at.port), watched.group_id, watched)
