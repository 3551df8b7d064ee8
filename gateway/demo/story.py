"""The whole story: the gateway is inserted, the group rolled there and back, the gateway removed.

The consumers begin on the cluster and end there. The last one is never restarted on its way back:
its bootstrap address is pointed at the cluster, and the gateway sends it there.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import trio

from gateway.board.views import GroupReadiness
from gateway.control.client import fetch_view, give
from gateway.control.control_socket import NoControlSocket
from gateway.control.messages import (
    AdoptCommand,
    AssessGroup,
    CommandRefused,
    ReleaseCommand,
    RemoveCommand,
)
from gateway.demo.errors import DemoError
from gateway.demo.fleet import Fleet
from gateway.demo.roll import Roll, RollStep
from gateway.demo.tcp_forwarder import TcpForwarder

REPEAT_LIMIT_S = 60.0
"""How long a refused command is given again. Before an adoption each consumer has to send a
heartbeat; before a release a member that could not leave stays for its session."""
ADOPTIONS_MAX = 3
"""How many adoptions are begun. Each that is undone costs its members a rebalance."""
ADOPTED, UNDONE = "the group is adopted", "the adoption is undone"
NOT_ADOPTED = "the group is not adopted"
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
        forwarder: TcpForwarder,
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
        self._front = forwarder
        self._front_address = front_address
        self._stop_watching = stop_watching
        self._why_undone = ""

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
        await self._adopt()
        await self._roll.there_and_back()
        await self._roll.step("the group is released", self._release)
        for name in others:
            await self._move(name, "back at the cluster", self._cluster)
        _require_undisturbed(await self._roll.step(f"{last} bootstraps again", self._remove))

    async def _move(self, name: str, where: str, bootstrap: str) -> None:
        replace = partial(self._fleet.replace, name, "classic", bootstrap)
        await self._roll.step(f"{name} {where}", replace, name)

    async def _adopt(self) -> None:
        """Adopt the group without a rebalance. An undone adoption costs one, so it is a step of its
        own, and the group is adopted again."""
        for _ in range(ADOPTIONS_MAX):
            step = await self._roll.step(ADOPTED, self._begin_adoption)
            if step.title == ADOPTED:
                _require_undisturbed(step)
                return
        raise DemoError(f"{NOT_ADOPTED}: undone {ADOPTIONS_MAX} times, last: {self._why_undone}")

    async def _begin_adoption(self) -> str:
        """Adopt the group as soon as that is possible. Returns the title of what became of it."""
        title = ADOPTED

        async def adopt() -> Sequence[str]:
            nonlocal title
            adoption = await give(self._state_dir, AdoptCommand(group_id=self._group))
            if adoption.reasons and adoption.held_ms is not None:
                title, self._why_undone = UNDONE, "; ".join(adoption.reasons)
                return ()
            if adoption.reasons and await self._mode() == "hosted":
                return ()  # an adoption that outlasted its command
            return adoption.reasons

        await _repeat(adopt, NOT_ADOPTED)
        return title

    async def _release(self) -> None:
        async def release() -> Sequence[str]:
            released = await give(self._state_dir, ReleaseCommand(group_id=self._group))
            if released.reasons and await self._mode() == "forwarded":
                return ()  # a release that outlasted its command
            return released.reasons

        await _repeat(release, "the group is not released")

    async def _remove(self) -> None:
        self._stop_watching()
        self._front.target = self._cluster

        async def remove() -> Sequence[str]:
            removed = await give(self._state_dir, RemoveCommand())
            return () if removed.is_removed else (*removed.reasons, *removed.clients_left)

        await _repeat(remove, "the gateway is not removed")

    async def _mode(self) -> str:
        """Who serves the group, as the gateway says."""
        question = AssessGroup(group_id=self._group)
        return (await fetch_view(self._state_dir, question, GroupReadiness)).mode


async def _repeat(command: Callable[[], Awaitable[Sequence[str]]], problem: str) -> None:
    """Give a command until it returns no reasons why it was refused. Raises DemoError."""
    end_s = trio.current_time() + REPEAT_LIMIT_S
    while reasons := await command():
        if trio.current_time() >= end_s:
            raise DemoError(f"{problem}: {'; '.join(reasons)}")
        await trio.sleep(_TRY_AGAIN_S)


def _require_undisturbed(step: RollStep) -> None:
    if step.rebalanced:
        members = ", ".join(change.member for change in step.rebalanced)
        raise DemoError(f"{step.title}: a rebalance, seen by {members}")
