"""A process of a fleet, as it is started by its parent."""

from dataclasses import dataclass

from gateway.fleet.fleet_state import SLOTS_FOLDER
from gateway.fleet.member import FleetMember
from gateway.fleet.parent_link import ParentLink


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesOfParent:
    """The shards of a process whose parent shares them out."""

    member: FleetMember
    at_start: tuple[int, ...]
    """The shards that it opens at its start."""
    log_id: str
    """The id of the state log of the whole fleet."""
    run_id: int
    """Greater than that of any process before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetProcess:
    """What a process of a fleet knows of itself."""

    number: int
    count: int
    """How many processes the fleet has on this machine."""
    shards: SharesOfParent | None
    """None if the group of a fleet on several machines shares out."""
    is_first: bool
    """Whether the fleet starts with it: it checks what is the same for all."""
    link: ParentLink

    @property
    def folder_name(self) -> str:
        """The folder for its socket and its events, below the state folder."""
        return f"{SLOTS_FOLDER}/{self.number}"
