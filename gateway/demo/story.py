"""The whole story: the gateway is inserted, the group rolled there and back, the gateway removed.

The consumers begin on the cluster and end there. The last one is never restarted on its way back:
its bootstrap address is pointed at the cluster, and the gateway sends it there.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import trio

from gateway.control.client import give
from gateway.control.control_socket import NoControlSocket
from gateway.control.messages import Adopt, CommandRefused, Release, Remove
from gateway.demo.errors import DemoError
from gateway.demo.fleet import Fleet
from gateway.demo.front import Front
from gateway.demo.roll import Roll

ADOPT_LIMIT_S = 30.0
"""How long the group may take to be adoptable: each consumer has to send a heartbeat."""
_TRY_AGAIN_S = 0.5


class Story:
    """One story, around a roll."""

    def __init__(
        self,
        roll: Roll,
        fleet: Fleet,
        *,
        group: str,
        state_dir: Path,
        cluster: str,
        gateway: str,
        front: Front,
        front_address: str,
        stop_watching: Callable[[], None],
    ) -> None:
        """`cluster`, `gateway` and `front_address` are bootstrap addresses. `stop_watching` closes
        the demo's own connection to the gateway, which is a client's, too."""
        self._roll = roll
        self._fleet = fleet
        self._group = group
        self._state_dir = state_dir
        self._cluster = cluster
        self._gateway = gateway
        self._front = front
        self._front_address = front_address
        self._stop_watching = stop_watching

    async def run(self) -> None:
        """Run all steps. Raises DemoError if one does not settle, or is refused, or if a consumer
        sees a rebalance that it should not."""
        try:
            await self._run()
        except (CommandRefused, NoControlSocket) as refusal:
            raise DemoError(f"a command was refused: {refusal}") from None

    async def _run(self) -> None:
        *others, last = self._fleet.wanted
        await self._roll.step("all start on the cluster")
        for name in others:
            await self._move(name, "behind the gateway", self._gateway)
        await self._move(last, "behind the gateway", self._front_address)
        await self._undisturbed("the group is adopted", self._adopt)
        await self._roll.there_and_back()
        await self._roll.step("the group is released", self._release)
        for name in others:
            await self._move(name, "back at the cluster", self._cluster)
        await self._undisturbed(f"{last} bootstraps again", self._remove)

    async def _move(self, name: str, where: str, bootstrap: str) -> None:
        replace = partial(self._fleet.replace, name, "classic", bootstrap)
        await self._roll.step(f"{name} {where}", replace, name)

    async def _undisturbed(self, title: str, act: Callable[[], Awaitable[None]]) -> None:
        step = await self._roll.step(title, act)
        if step.rebalanced:
            members = ", ".join(each.member for each in step.rebalanced)
            raise DemoError(f"{title}: a rebalance, seen by {members}")

    async def _adopt(self) -> None:
        reasons: tuple[str, ...] = ()
        with trio.move_on_after(ADOPT_LIMIT_S):
            while True:
                reasons = (await give(self._state_dir, Adopt(group_id=self._group))).reasons
                if not reasons:
                    return
                await trio.sleep(_TRY_AGAIN_S)
        raise DemoError(f"the group is not adopted: {'; '.join(reasons)}")

    async def _release(self) -> None:
        released = await give(self._state_dir, Release(group_id=self._group))
        if released.reasons:
            raise DemoError(f"the group is not released: {'; '.join(released.reasons)}")

    async def _remove(self) -> None:
        self._stop_watching()
        self._front.target = self._cluster
        removed = await give(self._state_dir, Remove())
        if not removed.is_removed:
            why = "; ".join((*removed.reasons, *removed.clients_left))
            raise DemoError(f"the gateway is not removed: {why}")
