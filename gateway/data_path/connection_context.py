"""What all client connections share."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import trio

from gateway.data_path.client_warnings import ClientWarnings
from gateway.data_path.config import Limits
from gateway.data_path.conversions import TopicNames
from gateway.data_path.found_coordinators import FoundCoordinators
from gateway.data_path.grants import OF_ALL_CLIENTS_MAX, Grants
from gateway.data_path.group_apis import GroupApis
from gateway.data_path.held_requests import HeldRequests
from gateway.data_path.private_names import NOTHING_PRIVATE, PrivateNames
from gateway.data_path.removal import Removal
from gateway.data_path.stream import StreamResources
from gateway.quotas.shares import SharedTotal
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.metadata import MetadataRequest, MetadataResponse

Rewrite = Callable[[Struct], Awaitable[Struct]]
"""Changes a decoded answer before the client gets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionContext:
    """Shared by all client connections."""

    limits: Limits
    group_apis: GroupApis
    rewrite: Rewrite
    """Replaces the upstream's addresses with ours, after opening listeners for them."""
    topic_names: TopicNames
    cluster_id: Callable[[], str | None]
    """The cluster's id, as clients learn it from Metadata; None until it is known."""
    recall_metadata: Callable[[MetadataRequest, int], Awaitable[MetadataResponse | None]]
    """The remembered answer to a Metadata request while no broker answers."""
    resources: StreamResources = field(default_factory=StreamResources)
    anonymous_grants: Grants
    """What the cluster has lately allowed clients without credentials."""
    grants_total: SharedTotal = field(default_factory=lambda: SharedTotal(OF_ALL_CLIENTS_MAX))
    """Counts what the cluster has allowed the others, each on its own connection."""
    found_coordinators: FoundCoordinators | None = None
    """The coordinators that clients without credentials were told lately. In a fleet none are
    remembered, because its members give each other groups."""
    held: HeldRequests
    """The long requests that are held in memory."""
    private_names: PrivateNames = NOTHING_PRIVATE
    """The topics and transactional ids that clients may not use."""
    client_side_apis: Mapping[int, ApiKey] = field(default_factory=dict)
    """The apis of client-side assignors, by the keys that clients use."""
    clients_authenticate: bool = False
    """Whether the brokers want SASL of clients."""
    removal: Removal = field(default_factory=Removal)
    """Sends clients to the cluster, when the gateway is to be removed."""
    client_warnings: ClientWarnings = field(default_factory=ClientWarnings)
    work_limiter: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(1))
    """The thread that decodes and encodes long messages, so that heartbeats need not wait."""
