"""The identity of an anchor: how the cluster, this gateway and other gateways recognise it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kafka_codecs.apis import ApiKey

PROTOCOL_TYPE = "groupferry"
"""Consumers cannot join a group of this type, and anchors cannot join a group of consumers."""

INSTANCE_ID = "groupferry"
"""Fixed, so that a gateway with the same state log replaces its predecessor."""

FIRST_COMMIT_VERSION = 7
FIRST_TXN_COMMIT_VERSION = 3
"""The first versions with an instance id. It fences the predecessor; the generation does not."""

_NEEDS = {
    ApiKey.JOIN_GROUP: 5,
    ApiKey.SYNC_GROUP: 3,
    ApiKey.HEARTBEAT: 3,
    ApiKey.OFFSET_COMMIT: FIRST_COMMIT_VERSION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The gateway that owns the anchor."""

    log_id: str
    """The protocol name, so that gateways with different state logs have none in common."""
    run_id: int
    """Distinguishes processes with the same state log, and grows from one to the next."""

    @property
    def metadata(self) -> bytes:
        """The protocol metadata, which names the process."""
        return b"run %d" % self.run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorIds:
    """The ids that the cluster gave the anchor. Commits carry them."""

    member_id: str
    generation: int


NO_IDS = AnchorIds(member_id="", generation=-1)
"""Stands for the ids where no anchor is needed."""


def run_of(metadata: bytes) -> int | None:
    """The run id of the anchor with this protocol metadata. None while an anchor joins, or if an
    earlier version of groupferry joined it."""
    found = re.fullmatch(rb"run ([0-9]{1,19})", metadata)
    return int(found[1]) if found else None


def may_hold(versions: Mapping[int, tuple[int, int]]) -> bool:
    """Whether the broker fences static members, as Kafka 2.3 and later do."""
    return all(versions.get(key, (0, -1))[1] >= version for key, version in _NEEDS.items())
