"""How an anchor is known in the cluster: to the cluster, to us, and to other gateways.

What it may do under that name is not known here.
"""

from dataclasses import dataclass, field
from uuid import uuid4

from gateway.cluster.broker_connection import Versions
from kafka_codecs.apis import ApiKey

PROTOCOL_TYPE = "groupferry"
"""No consumer joins a group of this type, and no such member joins a group of consumers."""

INSTANCE_ID = "groupferry"
"""Fixed, so that whoever has the same state log takes the predecessor's place."""

FIRST_COMMIT_VERSION = 7
FIRST_TXN_COMMIT_VERSION = 3
"""The first versions with an instance id: they fence the predecessor, the generation does not."""

_NEEDS = {
    ApiKey.JOIN_GROUP: 5,
    ApiKey.SYNC_GROUP: 3,
    ApiKey.HEARTBEAT: 3,
    ApiKey.OFFSET_COMMIT: FIRST_COMMIT_VERSION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """Whose anchor it is."""

    log_id: str
    """The protocol's name: a gateway with another state log has no protocol in common with us."""
    run_id: str = field(default_factory=lambda: uuid4().hex)
    """The protocol's metadata: tells this process from another one with the same log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorIds:
    """What the cluster gave the anchor; commits travel under it."""

    member_id: str
    generation: int


def may_hold(versions: Versions) -> bool:
    """Whether this broker, of Kafka 2.3 or later, fences static members."""
    return all(versions.get(key, (0, -1))[1] >= version for key, version in _NEEDS.items())
