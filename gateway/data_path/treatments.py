"""What the gateway does with each api, and up to which version it knows the answer: data only.

An api is here because a client needs it and its answer either carries no broker address or is one
that we decode. An unknown answer could lead a client around the gateway, so what is not here is
refused, as a broker refuses an api that it does not have.

Left out on purpose:
- SaslHandshake, SaslAuthenticate and the delegation tokens: they come with authentication.
- Vote, AlterPartition, BrokerHeartbeat and the like (52-54, 56, 58, 59, 62, 63, 67, 70, 73, 80-82):
  brokers and controllers talk among themselves.
- DescribeConfigs: a broker's `advertised.listeners` is an address.
- Share groups and streams groups (76-79, 83-92): not hosted here, and ShareFetch and
  ShareAcknowledge answer with broker addresses.
- Telemetry (71, 72): no client needs it, and subscriptions belong to one broker connection.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType

from kafka_codecs.apis import ApiKey


class Treatment(Enum):
    """How a request of an api is served."""

    RELAY = auto()
    """Request and answer pass untouched and are never held whole."""
    REWRITE = auto()
    """The request passes; its answer is decoded, and our addresses take the place of theirs."""
    ANSWER = auto()
    """We answer."""
    VET = auto()
    """We check the request, then ask the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Treated:
    """How an api is served, in which versions (both ends included)."""

    treatment: Treatment
    min_version: int
    max_version: int
    added_up_to: int | None = None
    """Offered up to here whatever the upstream speaks: we answer it ourselves, or convert."""


def _treated(
    treatment: Treatment, table: Mapping[ApiKey, tuple[int, int]]
) -> dict[ApiKey, Treated]:
    return {
        key: Treated(treatment=treatment, min_version=low, max_version=high)
        for key, (low, high) in table.items()
    }


def _added(treatment: Treatment, table: Mapping[ApiKey, tuple[int, int]]) -> dict[ApiKey, Treated]:
    return {
        key: Treated(treatment=treatment, min_version=low, max_version=high, added_up_to=high)
        for key, (low, high) in table.items()
    }


_RELAYED = {
    ApiKey.FETCH: (
        4,
        15,
    ),  # from v16 on, leader addresses stand at the end of a frame we never hold
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 6),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),  # from v4 on for brokers only (KIP-890)
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (1, 2),  # Admin.abortTransaction sends it
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.DESCRIBE_QUORUM: (0, 1),  # v2 adds the addresses of the controllers
    ApiKey.UPDATE_FEATURES: (0, 2),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.UNREGISTER_BROKER: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
}

_REWRITTEN = {
    ApiKey.PRODUCE: (3, 13),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
}

_ANSWERED = {
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
}

_ANSWERED_AND_ADDED = {
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
}

_VETTED = {
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.OFFSET_DELETE: (0, 0),
}

_VETTED_AND_ADDED = {
    ApiKey.OFFSET_COMMIT: (2, 9),  # v10 names topics by id
    ApiKey.OFFSET_FETCH: (1, 9),  # v10 names topics by id
}

_CONVERTED = {
    # Members of the new protocol look topics up by id, which v12 can.
    ApiKey.METADATA: Treated(
        treatment=Treatment.REWRITE, min_version=0, max_version=13, added_up_to=12
    ),
    # Some clients speak nothing older than v4.
    ApiKey.FIND_COORDINATOR: Treated(
        treatment=Treatment.REWRITE, min_version=0, max_version=6, added_up_to=6
    ),
}

TREATMENTS: Mapping[ApiKey, Treated] = MappingProxyType(
    {
        **_CONVERTED,
        **_treated(Treatment.RELAY, _RELAYED),
        **_treated(Treatment.REWRITE, _REWRITTEN),
        **_treated(Treatment.ANSWER, _ANSWERED),
        **_added(Treatment.ANSWER, _ANSWERED_AND_ADDED),
        **_treated(Treatment.VET, _VETTED),
        **_added(Treatment.VET, _VETTED_AND_ADDED),
    }
)

PRODUCE_ADDRESSES_SINCE = 10
"""The first Produce version whose answer may carry addresses (KIP-951); earlier ones pass."""

METADATA_TOPIC_IDS_SINCE = 10
"""The first Metadata version that tells topic ids; of an older upstream we derive them."""

TOPIC_IDS_SINCE: Mapping[ApiKey, int] = MappingProxyType(
    {
        ApiKey.PRODUCE: 13,
        ApiKey.FETCH: 13,
        ApiKey.CREATE_TOPICS: 7,
        ApiKey.DELETE_TOPICS: 6,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
    }
)
"""The first version that takes or tells topic ids: none is offered where we derive them."""

FEATURE_NEEDS: Mapping[str, Mapping[ApiKey, int]] = MappingProxyType(
    {
        # Transactions of KIP-890: a client that sees the level uses these versions.
        "transaction.version": {
            ApiKey.PRODUCE: 12,
            ApiKey.END_TXN: 5,
            ApiKey.TXN_OFFSET_COMMIT: 5,
        },
        "share.version": {ApiKey.SHARE_GROUP_HEARTBEAT: 1, ApiKey.SHARE_FETCH: 1},
        "streams.version": {ApiKey.STREAMS_GROUP_HEARTBEAT: 0},
    }
)
"""Features of the cluster that are passed on only when these apis are offered this far."""
