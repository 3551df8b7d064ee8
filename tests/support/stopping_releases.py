"""A gateway whose releases stop at a chosen step, so that a test can kill it there.

It is `groupferry`, but for one change: the machine of a release that has reached its step takes
nothing in any more. The rest of the process goes on.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gateway.cli import main
from gateway.hosting.release import Releasing
from gateway.hosting.release_steps import Effect, Input
from gateway.hosting.states import ReleaseStage

STOPPED = "release_stopped"
"""The event in its log."""


class Stop(NamedTuple):
    """Where the release of a group stops."""

    stage: ReleaseStage
    is_sent: bool
    """Whether the first requests of the stage leave, unlike their answers."""


def program(stops: Mapping[str, Stop]) -> str:
    """The program of such a gateway, for `python -c`. `stops` are by group id."""
    plain = {group_id: (each.stage.value, each.is_sent) for group_id, each in stops.items()}
    return f"from tests.support.stopping_releases import run; run({plain!r})"


def run(stops: Mapping[str, tuple[str, bool]]) -> None:
    """Be the gateway, until the end of the process."""
    _install({each: Stop(ReleaseStage(stage), sent) for each, (stage, sent) in stops.items()})
    sys.exit(main())


def _install(stops: Mapping[str, Stop]) -> None:
    stopped: set[Releasing] = set()
    handle, next_ms = Releasing.handle, Releasing.next_ms

    def handle_until_stopped(self: Releasing, event: Input, now_ms: int) -> Sequence[Effect]:
        if self in stopped:
            return ()
        effects = handle(self, event, now_ms)
        stop = stops.get(self._group_id)
        if stop is None or self.stage is not stop.stage:
            return effects
        stopped.add(self)
        sys.stderr.write(json.dumps({"event": STOPPED, "group_id": self._group_id}) + "\n")
        sys.stderr.flush()
        return effects if stop.is_sent else ()

    def next_ms_until_stopped(self: Releasing) -> int | None:
        return None if self in stopped else next_ms(self)

    Releasing.handle = handle_until_stopped  # type: ignore[method-assign]
    Releasing.next_ms = next_ms_until_stopped  # type: ignore[method-assign]
