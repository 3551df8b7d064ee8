"""A gateway whose adoptions stop at a chosen step, so that a test can kill it there, or their
coordinator.

It is `groupferry`, but for one change: the machine of an adoption that has reached its step takes
nothing in any more, or goes on with a coordinator that does not answer. The rest of the process
goes on.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gateway.cli import main
from gateway.hosting.adoption import Adopting
from gateway.hosting.adoption_steps import Effect, Input
from gateway.hosting.states import AdoptionStage

STOPPED = "adoption_stopped"
"""The event in its log."""


class Stop(NamedTuple):
    """Where the adoption of a group stops."""

    stage: AdoptionStage
    is_sent: bool
    """Whether the first requests of the stage leave, unlike their answers."""
    broker: int = 0
    """The process id of a broker that is paused instead, before these requests reach it."""


def program(stops: Mapping[str, Stop]) -> str:
    """The program of such a gateway, for `python -c`. `stops` are by group id."""
    plain = {group_id: (each.stage.value, *each[1:]) for group_id, each in stops.items()}
    return f"from tests.support.stopping_adoptions import run; run({plain!r})"


def run(stops: Mapping[str, tuple[str, bool, int]]) -> None:
    """Be the gateway, until the end of the process."""
    _install({group: Stop(AdoptionStage(plain[0]), *plain[1:]) for group, plain in stops.items()})
    sys.exit(main())


def _install(stops: Mapping[str, Stop]) -> None:
    stopped: set[Adopting] = set()
    handle, next_ms = Adopting.handle, Adopting.next_ms

    def handle_until_stopped(self: Adopting, event: Input, now_ms: int) -> Sequence[Effect]:
        if self in stopped:
            return ()
        before = self.stage
        effects = handle(self, event, now_ms)
        stop = stops.get(self._group_id)
        if stop is None or self.stage is before or self.stage is not stop.stage:
            return effects
        if stop.broker:
            os.kill(stop.broker, signal.SIGSTOP)
        else:
            stopped.add(self)
        sys.stderr.write(json.dumps({"event": STOPPED, "group_id": self._group_id}) + "\n")
        sys.stderr.flush()
        return effects if stop.is_sent else ()

    def next_ms_until_stopped(self: Adopting) -> int | None:
        return None if self in stopped else next_ms(self)

    Adopting.handle = handle_until_stopped  # type: ignore[method-assign]
    Adopting.next_ms = next_ms_until_stopped  # type: ignore[method-assign]
