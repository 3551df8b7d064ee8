"""Client-side assignors, as members describe them."""

from coordinator.interface.config import GroupConfig
from coordinator.interface.records import ClientAssignor

CLIENT_SIDE = GroupConfig(client_side_assignors=True, consumer_assignment_interval_ms=0)


def weighted_assignor(
    minimum: int = 0,
    maximum: int = 3,
    *,
    version: int | None = None,
    metadata: bytes = b"",
    reason: int = 0,
    name: str = "weighted",
) -> ClientAssignor:
    """An assignor; its metadata has the newest version unless stated."""
    return ClientAssignor(
        name=name,
        minimum_version=minimum,
        maximum_version=maximum,
        reason=reason,
        version=maximum if version is None else version,
        metadata=metadata,
    )
