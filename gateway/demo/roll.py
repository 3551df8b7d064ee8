"""The roll: one consumer after another to the new protocol, and back.

Defines the order of the steps, and when a step counts as settled.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
import trio

from gateway.demo.errors import DemoError
from gateway.demo.fleet import Fleet
from gateway.demo.group_view import GroupView, Protocol, disagreement
from gateway.demo.ledger import Disturbance, Ledger

SETTLE_LIMIT_S = 60.0
_LOOK_INTERVAL_S = 0.1
_SAY_INTERVAL_S = 5.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class RollStep:
    """One settled step."""

    title: str
    group_protocol: Protocol
    classic_members: int
    native_members: int
    settled_after_s: float
    disturbance: Disturbance


class Roll:
    """One roll there and back. `steps` grows as steps settle."""

    def __init__(
        self, fleet: Fleet, ledger: Ledger, describe: Callable[[], Awaitable[GroupView | str]]
    ) -> None:
        """`describe` returns the group as the gateway describes it, or a text that says why not."""
        self.steps: list[RollStep] = []
        self._fleet = fleet
        self._ledger = ledger
        self._describe = describe

    async def run(self) -> None:
        """Run all steps. Raises DemoError with the reason if one does not settle."""
        await self._settle("all start as classic", None, time.monotonic())
        protocols: tuple[Protocol, ...] = ("consumer", "classic")
        for protocol in protocols:
            for name in self._fleet.wanted:
                title = f"{name} to {protocol}"
                since_s = time.monotonic()
                log.info("step_started", step=title)
                await self._fleet.replace(name, protocol)
                await self._settle(title, name, since_s)

    async def _settle(self, title: str, replaced: str | None, since_s: float) -> None:
        view = await self._settled_view(title)
        until_s = time.monotonic()
        wanted = list(self._fleet.wanted.values())
        step = RollStep(
            title=title,
            group_protocol=view.protocol,
            classic_members=wanted.count("classic"),
            native_members=wanted.count("consumer"),
            settled_after_s=until_s - since_s,
            disturbance=self._ledger.disturbance(replaced, since_s, until_s),
        )
        self.steps.append(step)
        log.info(
            "step_settled",
            step=title,
            after_s=round(step.settled_after_s, 1),
            classic_members=step.classic_members,
            native_members=step.native_members,
            partitions_moved=step.disturbance.partitions_moved,
            members_disturbed=step.disturbance.members_disturbed,
        )

    async def _settled_view(self, title: str) -> GroupView:
        problem = "the group has not been seen"
        said_s = time.monotonic()
        with trio.move_on_after(SETTLE_LIMIT_S):
            while True:
                view = await self._describe()
                if isinstance(view, GroupView):
                    problem = self._disagreement(view) or ""
                    if not problem:
                        return view
                else:
                    problem = view
                if time.monotonic() - said_s > _SAY_INTERVAL_S:
                    said_s = time.monotonic()
                    log.info("step_waits", step=title, reason=problem)
                await trio.sleep(_LOOK_INTERVAL_S)
        raise DemoError(f"{title}: not settled within {SETTLE_LIMIT_S:.0f} s: {problem}")

    def _disagreement(self, view: GroupView) -> str | None:
        return disagreement(view, expected=self._fleet.wanted, owners=self._ledger.owners())
