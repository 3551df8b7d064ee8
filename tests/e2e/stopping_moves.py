"""A gateway whose adoptions or releases stop at a chosen step, so that a test can kill it there, or
their coordinator.

It is `groupferry`, but for one change: a move that has reached its step takes nothing in any more,
or continues with a coordinator that does not answer. The rest of the process continues.
"""

import json
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gateway.cli import main
from gateway.hosting.adoption import Adopting
from gateway.hosting.logged_engine import StepOfMove
from gateway.hosting.release import Releasing
from gateway.hosting.states import AdoptionStage, ReleaseStage

STOPPED = "move_stopped"
"""The event in its log."""


_INPUTS = ("on_done", "on_failed", "on_stored")


class Stop(NamedTuple):
    """Where the move of a group stops."""

    stage: AdoptionStage | ReleaseStage
    is_sent: bool
    """Whether the first requests of the stage leave, unlike their answers."""
    broker: int = 0
    """The process id of a broker that is paused instead, before these requests reach it."""


def program(stops: Mapping[str, Stop]) -> str:
    """The program of such a gateway, for `python -c`. `stops` are by group id."""
    plain = {
        group_id: (type(stop.stage).__name__, stop.stage.value, *stop[1:])
        for group_id, stop in stops.items()
    }
    return f"from tests.e2e.stopping_moves import run; run({plain!r})"


def run(stops: Mapping[str, tuple[str, str, bool, int]]) -> None:
    """Be the gateway, until the end of the process."""
    stages = {kind.__name__: kind for kind in (AdoptionStage, ReleaseStage)}
    _install(
        {
            group_id: Stop(stages[kind](stage), is_sent, broker)
            for group_id, (kind, stage, is_sent, broker) in stops.items()
        }
    )
    sys.exit(main())


def _install(stops: Mapping[str, Stop]) -> None:
    stopped: set[Adopting | Releasing] = set()
    reached: set[Adopting | Releasing] = set()

    def is_at_its_step(move: Adopting | Releasing) -> bool:
        stop = stops.get(move._parts.group_id)
        is_there = stop is not None and move.has_begun and move.stage is stop.stage
        return is_there and move not in reached

    def stop(move: Adopting | Releasing) -> None:
        parts = move._parts
        how = stops[parts.group_id]
        reached.add(move)
        if how.broker:
            os.kill(how.broker, signal.SIGSTOP)
        else:
            stopped.add(move)
        line = {"event": STOPPED, "group_id": parts.group_id}
        sys.stderr.write(json.dumps(line) + "\n")
        sys.stderr.flush()
        if not how.is_sent:
            parts.effects[:] = [effect for effect in parts.effects if effect not in move.steps]
            events = parts.engine._happened
            parts.engine._happened = deque(e for e in events if not isinstance(e, StepOfMove))

    def until_stopped(real: Callable[..., Any], advance: Callable[..., Any]) -> Callable[..., Any]:
        """A method that has no effect once the move has stopped. It stops after what is due at its
        step, so that this is sent, or is not."""

        def method(self: Adopting | Releasing, *args: Any, **how: Any) -> Any:
            if self in stopped:
                return None
            result = real(self, *args, **how)
            if real.__name__ != "next_ms" and is_at_its_step(self):
                if real is not advance:
                    advance(self, how.get("now_ms", args[-1] if args else None))
                stop(self)
            return result

        return method

    for kind in (Adopting, Releasing):
        advance = kind.advance
        for name in ("advance", "next_ms", *_INPUTS):
            setattr(kind, name, until_stopped(getattr(kind, name), advance))
