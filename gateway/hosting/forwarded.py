"""What the gateway knows of a forwarded group, from what it relays and from descriptions."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedMember:
    """A classic member of a forwarded group, behind the gateway or beside it."""

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int | None = None
    """None until a join was relayed."""
    rebalance_timeout_ms: int | None = None
    """None until a join was relayed."""
    protocols: tuple[tuple[str, bytes], ...] = ()
    """The assignors and their metadata, in the member's order. Of a member whose join was not
    relayed, only the protocol in force is known."""
    assignment: bytes = b""
    """What the cluster assigned in the group's generation, as in its SyncGroup answer."""
    heartbeat_ms: int | None = None
    """When the member was last answered here as a member of the group; None if it never was."""
    joined_here: bool = False
    """Whether its join in the group's generation was relayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedGroup:
    """A classic group in the cluster, as far as known."""

    group_id: str
    generation: int | None = None
    """None until an answer to a member tells it: descriptions do not."""
    protocol: str = ""
    """The assignor in force; empty during a rebalance."""
    leader_id: str | None = None
    """Known only from a relayed JoinGroup answer of the generation."""
    members: Mapping[str, WatchedMember]
    """By member id."""
