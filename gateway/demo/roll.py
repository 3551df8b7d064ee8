"""The roll: one consumer after another to the new protocol, and back.

Defines the order of the steps, and when a step counts as settled.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import structlog
import trio

from gateway.demo.errors import DemoError
from gateway.demo.fleet import Fleet
from gateway.demo.group_view import ObservedGroup, Protocol, disagreement
from gateway.demo.ledger import Change, Disturbance, Ledger

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
    rebalanced: tuple[Change, ...] = ()
    """What members saw besides the replaced one. The step is the cause."""


class Roll:
    """One roll there and back. `steps` grows as steps settle."""

    def __init__(
        self, fleet: Fleet, ledger: Ledger, describe: Callable[[], Awaitable[ObservedGroup | str]]
    ) -> None:
        """`describe` returns the group as the gateway describes it, or a text that says why not."""
        self.steps: list[RollStep] = []
        self._fleet = fleet
        self._ledger = ledger
        self._describe = describe

    async def run(self) -> None:
        """Run all steps. Raises DemoError with the reason if one does not settle."""
        await self.step("all start as classic")
        await self.there_and_back()

    async def there_and_back(self) -> None:
        """Roll all members to the new protocol, and back. Raises DemoError."""
        protocols: tuple[Protocol, ...] = ("consumer", "classic")
        for protocol in protocols:
            for name in self._fleet.wanted:
                replace = partial(self._fleet.replace, name, protocol)
                await self.step(f"{name} to {protocol}", replace, name)

    async def step(
        self,
        title: str,
        act: Callable[[], Awaitable[str | None]] | None = None,
        replaced: str | None = None,
    ) -> RollStep:
        """Do this, and wait until the group has settled. `act` may return another title, for what
        happened instead. Raises DemoError."""
        since_s = time.monotonic()
        if act is not None:
            log.info("step_started", step=title)
            title = await act() or title
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
            rebalanced=self._ledger.changes(replaced, since_s, until_s),
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
        return step

    async def _settled_view(self, title: str) -> ObservedGroup:
        problem = "the group has not been seen"
        said_s = time.monotonic()
        with trio.move_on_after(SETTLE_LIMIT_S):
            while True:
                view = await self._describe()
                if isinstance(view, ObservedGroup):
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

    def _disagreement(self, view: ObservedGroup) -> str | None:
        return disagreement(view, expected=self._fleet.wanted, owners=self._ledger.owners())
