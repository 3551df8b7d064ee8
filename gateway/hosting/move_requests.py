"""What is asked for when a group is to move to this gateway or back, and what becomes of it."""

from dataclasses import dataclass
from typing import Any, Generic, Self, TypeAlias, TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOutcome:
    """What became of a request to move a group."""

    group_id: str
    reasons: tuple[str, ...] = ()
    """Why it was not moved, or cannot be; one for each member that speaks against it. None after a
    dry run: it can be adopted."""

    @classmethod
    def refuse(cls, group_id: str, *reasons: str) -> Self:
        """Make the outcome of a move that was refused before anything began."""
        return cls(group_id=group_id, reasons=reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionOutcome(MoveOutcome):
    """What became of a request to adopt a group."""

    is_adopted: bool = False
    """Whether the group is hosted now, because it was adopted."""
    is_marked: bool = False
    """Whether a group without members in the cluster is adopted, or can be: it stays hosted, or is
    from its next join on."""
    is_known: bool = True
    """Whether the gateway or the cluster has heard of the group. Its name may be misspelt."""
    held_ms: int | None = None
    """How long the calls of its clients were held, if they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOutcome(MoveOutcome):
    """What became of a request to release a group."""

    is_released: bool = False
    """Whether the cluster serves the group now."""
    unowned_ms: int | None = None
    """The time for which no member could own the partitions; None if there was no release, or if
    the group had no members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProtocol:
    """Whether the cluster takes members of the new protocol, alone and together with classic
    ones."""

    why_no_natives: str = ""
    """Why it takes none; empty if it does."""
    why_not_mixed: str = ""
    """Why it takes no classic ones together with them; empty if it does."""

    @property
    def takes_natives(self) -> bool:
        """Whether it takes members of the new protocol at all."""
        return not self.why_no_natives

    @property
    def takes_mixed(self) -> bool:
        """Whether it takes classic members together with them."""
        return not self.why_not_mixed


Outcome = TypeVar("Outcome", bound=MoveOutcome)


@dataclass(slots=True, eq=False, kw_only=True)
class MoveRequest(Generic[Outcome]):
    """A group is to be moved, by an operator's command or by a setting."""

    outcome: Outcome | None = None
    operator: Any = None
    """What the carrier of effects knows of the task that waits; the group never looks at it."""


@dataclass(slots=True, eq=False, kw_only=True)
class AdoptRequest(MoveRequest[AdoptionOutcome]):
    """A group is to be adopted."""


@dataclass(slots=True, eq=False, kw_only=True)
class ReleaseRequest(MoveRequest[ReleaseOutcome]):
    """A group is to be released."""

    new_protocol: NewProtocol = NewProtocol()
    is_unattended: bool = False
    """Whether no client can reach this process, so that members give up by their silence."""


AnyRequest: TypeAlias = MoveRequest[Any]
