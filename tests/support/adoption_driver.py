"""Carries out an adoption in front of a real coordinator, one connection per lane."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from time import time_ns

import trio

from coordinator.interface.config import GroupConfig
from coordinator.interface.events import AdoptionEnded, AdoptionMoved
from coordinator.interface.records import AdoptionState
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from gateway.hosting.adoption import Adopting
from gateway.hosting.adoption_steps import (
    Answered,
    Ask,
    Describe,
    Described,
    Drained,
    Effect,
    GaveUp,
    Hold,
    Input,
    Lane,
    MoveTimerFired,
    Stored,
    Unanswered,
)
from gateway.hosting.forwarded import WatchedGroup
from gateway.hosting.grace import Grace
from gateway.hosting.identity import AnchorIds, Gateway
from gateway.hosting.routes import GroupSituation
from gateway.hosting.states import AdoptionStage as Stage
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
        """Adopt the group, or go on with an adoption that the log knows. `hooks` run when a stage
        is reached, before its first request."""
        guise, config = self.gateway.guise, GroupConfig()
        machine = Adopting(self.group, guise, config, grace=Grace(), found=self.stored)
        await _Run(self, machine, dict(hooks or {})).run()
        return machine

    async def killed_at(self, stage: Stage) -> None:
        """Begin to adopt the group, and stop when a stage is reached. Its requests may still
        arrive."""
        with trio.CancelScope() as killed:

            async def kill() -> None:
                killed.cancel()

            await self.adopt({stage: kill})
        self.gateway = replace(self.gateway, run_id=self.gateway.run_id + 1)


@dataclass
class _Run:
    at: Coordinator
    machine: Adopting
    hooks: dict[Stage, Hook]
    told: set[str] = field(default_factory=set)

    async def run(self) -> None:
        send, receive = trio.open_memory_channel[Input](100)
        async with _lanes(self.at.address) as lanes, trio.open_nursery() as nursery:

            async def carry_out(effect: Effect) -> None:
                await send.send(await self._carry_out(effect, lanes))

            async def begin(effects: Sequence[Effect]) -> None:
                if (hook := self.hooks.pop(self.machine.stage, None)) is not None:
                    for effect in effects:
                        nursery.start_soon(carry_out, effect)
                    await hook()
                    return
                for effect in effects:
                    nursery.start_soon(carry_out, effect)

            await begin(self.machine.start(now_ms()))
            while not self.machine.is_over:
                event: Input = MoveTimerFired()
                at_ms = self.machine.next_ms()
                wait_s = 60.0 if at_ms is None else max(0, at_ms - now_ms()) / 1000
                with trio.move_on_after(wait_s):
                    event = await receive.receive()
                await begin(self.machine.handle(event, now_ms()))
                for gave_up in self._given_up():
                    await begin(self.machine.handle(gave_up, now_ms()))
            nursery.cancel_scope.cancel()

    def _given_up(self) -> list[GaveUp]:
        """The test's members give up everything at once when they are recalled."""
        if self.machine.situation is not GroupSituation.RECALLED or self.machine.guard is None:
            return []
        news = [each for each in self.at.watched.members if each not in self.told]
        self.told.update(news)
        return [GaveUp(member_id) for member_id in news]

    async def _carry_out(self, effect: Effect, lanes: Mapping[Lane, BrokerConnection]) -> Input:
        match effect:
            case Describe():
                async with await BrokerConnection.open(*self.at.address) as connection:
                    group = await GroupClient(connection, self.at.group).described()
                return Described(group, self.at.watched)
            case AdoptionMoved(adoption=adoption):
                self.at.stored = adoption
                return Stored()
            case Hold():
                return Drained()
            case AdoptionEnded():
                self.at.anchor, self.at.stored = self.machine.handed_over, None
                return Stored()
            case Ask(lane, message):
                try:
                    return Answered(lane, await lanes[lane].ask(message))
                except UpstreamError as error:
                    return Unanswered(lane, str(error))


@asynccontextmanager
async def _lanes(address: Address) -> AsyncIterator[Mapping[Lane, BrokerConnection]]:
    lanes = {lane: await BrokerConnection.open(*address, client_id="groupferry") for lane in Lane}
    try:
        yield lanes
    finally:
        for connection in lanes.values():
            connection.close()


async def coordinator(address: Address, watched: WatchedGroup) -> Coordinator:
    """The coordinator of a group."""
    found = await find_coordinator(address, watched.group_id)
    return Coordinator((found.host, found.port), watched.group_id, watched)
