"""What happens to a release, what it asks its driver to do, and the wish for one."""

from dataclasses import dataclass
from typing import Any, Self

from coordinator.interface.records import ReleaseState
from gateway.hosting.adoption_steps import (
    Answered,
    Ask,
    GaveUp,
    Heard,
    Stored,
    StoreFailed,
    TimePassed,
    Unanswered,
)
from gateway.hosting.identity import AnchorIds


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOutcome:
    """What became of the wish to release a group."""

    group_id: str
    is_released: bool
    """Whether the cluster serves the group now."""
    reasons: tuple[str, ...] = ()
    """Why not; one for each member that must be rolled back first."""
    unowned_ms: int | None = None
    """The time for which nobody could own the partitions; None if there was no release."""

    @classmethod
    def refused(cls, group_id: str, *reasons: str) -> Self:
        """Nothing was begun."""
        return cls(group_id=group_id, is_released=False, reasons=reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProtocol:
    """Whether the cluster takes members of the new protocol, alone and beside classic ones."""

    why_no_natives: str = ""
    """Why it takes none; empty if it does."""
    why_not_mixed: str = ""
    """Why it takes no classic ones beside them; empty if it does."""

    @property
    def takes_natives(self) -> bool:
        """Whether it takes members of the new protocol at all."""
        return not self.why_no_natives

    @property
    def takes_mixed(self) -> bool:
        """Whether it takes classic members beside them."""
        return not self.why_not_mixed


@dataclass(slots=True, eq=False)
class ReleaseWish:
    """Somebody wants a group to be released, and may wait for what becomes of it."""

    new_protocol: NewProtocol = NewProtocol()
    is_unattended: bool = False
    """Whether no client can reach this process, so that members give up by their silence."""
    outcome: ReleaseOutcome | None = None
    operator: Any = None
    """What the carrier of effects knows of the one who waits; the group never looks at it."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """Nobody holds anything, every commit has ended, and the anchor's place is the release's. None:
    there is no anchor any more."""

    ids: AnchorIds | None


@dataclass(frozen=True, slots=True)
class NativeJoined:
    """The cluster has a native member."""


@dataclass(frozen=True, slots=True)
class StoreRelease:
    """Write how far the release has come. `Stored` or `StoreFailed` must follow."""

    release: ReleaseState


Input = (
    Answered
    | Unanswered
    | Stored
    | StoreFailed
    | Heard
    | GaveUp
    | HandedOver
    | NativeJoined
    | TimePassed
)
Effect = Ask | StoreRelease
