"""The first contact with a cluster: which one it is, before anything of it is used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.cluster.access import Access
from gateway.cluster.broker_connection import Address
from gateway.cluster.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCluster:
    """A cluster that has answered."""

    addresses: tuple[Address, ...]
    """The bootstrap addresses, the one that has answered first, so that no other is waited for
    again."""
    brokers: Mapping[int, Address]
    cluster_id: str | None
    """None if it has none that lasts."""


async def find_cluster(upstream: Sequence[Address], access: Access) -> FoundCluster:
    """Find the cluster at these addresses. Raises UpstreamError."""
    cluster = Cluster(upstream, access=access)
    await cluster.refresh()  # without a task that keeps it up to date
    return FoundCluster(
        addresses=tuple(sorted(upstream, key=lambda address: address != cluster.answered)),
        brokers=cluster.brokers,
        cluster_id=cluster.lasting_id,
    )
