"""What happens to a release, and what it asks its driver to do."""

from dataclasses import dataclass

from coordinator.interface.events import ReleaseMoved
from gateway.hosting.adoption_steps import (
    Answered,
    Ask,
    GaveUp,
    Heard,
    MoveTimerFired,
    Stored,
    StoreFailed,
    Unanswered,
)
from gateway.hosting.identity import AnchorIds


@dataclass(frozen=True, slots=True)
class HandedOver:
    """Nobody holds anything, every commit has ended, and the anchor's place is the release's. None:
    there is no anchor any more."""

    ids: AnchorIds | None


@dataclass(frozen=True, slots=True)
class NativeJoined:
    """The cluster has a native member."""


Input = (
    Answered
    | Unanswered
    | Stored
    | StoreFailed
    | Heard
    | GaveUp
    | HandedOver
    | NativeJoined
    | MoveTimerFired
)
Effect = Ask | ReleaseMoved
