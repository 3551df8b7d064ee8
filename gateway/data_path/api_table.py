"""The treatment of each api, and the highest version that the gateway knows of it: data only.

An api is listed if clients need it and its answer either contains no broker address or is decoded
here. An unknown answer could lead a client around the gateway, so an api that is not listed is
refused, as by a broker that does not have it: `LEFT_OUT` says why.

Share groups and streams groups are the cluster's. Their members' heartbeats are looked at only to
know that there is such a group.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from enum import Enum, auto
from functools import partial
from types import MappingProxyType

from kafka_codecs.apis import ApiKey


class ApiHandling(Enum):
    """How requests of an api are served."""

    RELAY = auto()
    """Request and answer pass unchanged, and are never held whole."""
    REWRITE = auto()
    """The request passes; the answer is decoded and its addresses are replaced with ours."""
    ANSWER = auto()
    """The gateway answers."""
    SASL = auto()
    """The gateway asks the cluster on behalf of the client, and follows what it answers."""
    INSPECT = auto()
    """The gateway checks the request or the answer, and the cluster executes the request."""


@dataclass(frozen=True, slots=True)
class ApiEntry:
    """The treatment of an api, and its highest version.

    A client is offered the versions up to it that the upstream supports too, with the two
    exceptions below. The lowest version is the upstream's own: clients read from it what a broker
    can do, as librdkafka before 2.11 does with Produce v0.
    """

    treatment: ApiHandling
    max_version: int
    _: KW_ONLY
    min_version: int = 0
    """The first version of an api whose earlier ones were only tried out."""
    without_upstream: bool = False
    """Offered up to `max_version` even if the upstream does not have the api: the gateway answers
    alone."""
    converted_up_to: int | None = None
    """Offered up to here, because requests are converted."""
    converted_from: int = 0
    """The upstream has to support this version or a later one of the range, if it has the api, for
    more versions than its own to be offered."""


_relay = partial(ApiEntry, ApiHandling.RELAY)
_rewrite = partial(ApiEntry, ApiHandling.REWRITE)
_answer = partial(ApiEntry, ApiHandling.ANSWER)
_sasl = partial(ApiEntry, ApiHandling.SASL)
_inspect = partial(ApiEntry, ApiHandling.INSPECT)

API_TABLE: Mapping[ApiKey, ApiEntry] = MappingProxyType(
    {
        ApiKey.PRODUCE: _rewrite(13),
        ApiKey.FETCH: _relay(15),  # v16 has addresses at the end of a frame we never hold
        ApiKey.LIST_OFFSETS: _relay(11),
        # Native members look topics up by id, which v12 allows.
        ApiKey.METADATA: _rewrite(13, converted_up_to=13),
        # Native members need v9. v10 names topics by id.
        ApiKey.OFFSET_COMMIT: _inspect(9, converted_up_to=9),
        ApiKey.OFFSET_FETCH: _inspect(9, converted_up_to=9),
        # Some clients support nothing before v4.
        ApiKey.FIND_COORDINATOR: _inspect(6, converted_up_to=6),
        ApiKey.JOIN_GROUP: _answer(9),
        ApiKey.HEARTBEAT: _answer(4),
        ApiKey.LEAVE_GROUP: _answer(5),
        ApiKey.SYNC_GROUP: _answer(5),
        ApiKey.DESCRIBE_GROUPS: _answer(6, without_upstream=True),
        # v4 has the states of groups. Before v5 all groups are classic ones.
        ApiKey.LIST_GROUPS: _answer(5, without_upstream=True, converted_from=4),
        ApiKey.SASL_HANDSHAKE: _sasl(1),
        ApiKey.SASL_AUTHENTICATE: _sasl(2),
        ApiKey.API_VERSIONS: _answer(5, without_upstream=True),
        ApiKey.CREATE_TOPICS: _relay(7),
        ApiKey.DELETE_TOPICS: _relay(6),
        ApiKey.DELETE_RECORDS: _relay(2),
        ApiKey.INIT_PRODUCER_ID: _relay(6),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _relay(4),
        ApiKey.ADD_PARTITIONS_TO_TXN: _relay(3),  # from v4 on for brokers only (KIP-890)
        ApiKey.ADD_OFFSETS_TO_TXN: _relay(4),
        ApiKey.END_TXN: _relay(5),
        ApiKey.WRITE_TXN_MARKERS: _relay(2),  # Admin.abortTransaction sends it
        # v5 is the first for transactions of KIP-890; v6 names topics by id.
        ApiKey.TXN_OFFSET_COMMIT: _inspect(6, converted_up_to=6, converted_from=5),
        ApiKey.DESCRIBE_ACLS: _relay(3),
        ApiKey.CREATE_ACLS: _relay(3),
        ApiKey.DELETE_ACLS: _relay(3),
        # Descriptions of brokers contain addresses, and the groups hosted here have configs.
        ApiKey.DESCRIBE_CONFIGS: _answer(4, without_upstream=True),
        ApiKey.ALTER_CONFIGS: _answer(2),
        ApiKey.ALTER_REPLICA_LOG_DIRS: _relay(2),
        # Its coordinator nodes would list those of a broker again.
        ApiKey.DESCRIBE_LOG_DIRS: _rewrite(5),
        ApiKey.CREATE_PARTITIONS: _relay(3),
        ApiKey.DELETE_GROUPS: _inspect(3, converted_up_to=3),
        ApiKey.ELECT_LEADERS: _relay(2),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _answer(1, without_upstream=True),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _relay(1),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _relay(0),
        ApiKey.OFFSET_DELETE: _inspect(0),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: _relay(1),
        ApiKey.ALTER_CLIENT_QUOTAS: _relay(1),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _relay(0),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _relay(0),
        ApiKey.DESCRIBE_QUORUM: _rewrite(2),
        ApiKey.UPDATE_FEATURES: _relay(2),
        ApiKey.DESCRIBE_CLUSTER: _rewrite(2),
        ApiKey.DESCRIBE_PRODUCERS: _relay(0),
        ApiKey.UNREGISTER_BROKER: _relay(0),
        ApiKey.DESCRIBE_TRANSACTIONS: _relay(0),
        # As for log directories.
        ApiKey.LIST_TRANSACTIONS: _rewrite(2),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: _answer(1, without_upstream=True),
        ApiKey.CONSUMER_GROUP_DESCRIBE: _answer(1, without_upstream=True),
        # A subscription belongs to a client and a broker, and so does a connection here.
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _relay(0),
        ApiKey.PUSH_TELEMETRY: _relay(0),
        ApiKey.LIST_CONFIG_RESOURCES: _answer(1, without_upstream=True),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: _relay(0),
        ApiKey.SHARE_GROUP_HEARTBEAT: _inspect(1, min_version=1),
        ApiKey.SHARE_GROUP_DESCRIBE: _relay(1),
        ApiKey.SHARE_FETCH: _rewrite(2, min_version=1),
        ApiKey.SHARE_ACKNOWLEDGE: _rewrite(2, min_version=1),
        ApiKey.STREAMS_GROUP_HEARTBEAT: _inspect(1),
        ApiKey.STREAMS_GROUP_DESCRIBE: _relay(1),
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _relay(1),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: _relay(0),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: _relay(0),
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _relay(0),
        # No broker has these two: they are offered under keys of the operator's choice, if at all.
        ApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT: _answer(0),
        ApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT: _answer(0),
    }
)

_OF_TOKENS = (
    "a token is a credential for the cluster itself, and would be the gateway's own where clients"
    " do not authenticate"
)
_OF_BROKERS = "only brokers and controllers use it"
_OF_THE_QUORUM = "it names addresses of controllers, which clients cannot reach"

LEFT_OUT: Mapping[ApiKey, str] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *(ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN),
                *(ApiKey.EXPIRE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN),
            ),
            _OF_TOKENS,
        ),
        **dict.fromkeys(
            (
                *(ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH),
                *(ApiKey.ALTER_PARTITION, ApiKey.ENVELOPE, ApiKey.FETCH_SNAPSHOT),
                *(ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT),
                *(ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.CONTROLLER_REGISTRATION),
                *(ApiKey.ASSIGN_REPLICAS_TO_DIRS, ApiKey.UPDATE_RAFT_VOTER),
                *(ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE),
                *(ApiKey.WRITE_SHARE_GROUP_STATE, ApiKey.DELETE_SHARE_GROUP_STATE),
                ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
            ),
            _OF_BROKERS,
        ),
        **dict.fromkeys(
            (ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER, ApiKey.UNREGISTER_CONTROLLER),
            _OF_THE_QUORUM,
        ),
    }
)
"""Why an api of Kafka is refused."""

LISTS_NAMES = frozenset(
    {
        *(ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.DESCRIBE_LOG_DIRS),
        *(ApiKey.LIST_PARTITION_REASSIGNMENTS, ApiKey.LIST_TRANSACTIONS),
        *(ApiKey.LIST_CONFIG_RESOURCES, ApiKey.ELECT_LEADERS, ApiKey.CONSUMER_GROUP_DESCRIBE),
    }
)
"""The apis whose answers list topics or transactional ids that the request does not name."""

LAST_WORDS = frozenset(
    {
        *(ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT),
        *(ApiKey.LEAVE_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT),
        *(ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.SHARE_ACKNOWLEDGE),
    }
)
"""The apis that count although the client closes its connection behind the request. Of the
heartbeats, only those with which a member leaves."""

PRODUCE_ADDRESSES_SINCE = 10
"""The first Produce version whose answer may contain addresses (KIP-951). Older answers pass."""

METADATA_TOPIC_IDS_SINCE = 10
"""The first Metadata version with topic ids. For an older upstream the gateway derives them."""

TOPIC_IDS_SINCE: Mapping[ApiKey, int] = MappingProxyType(
    {
        ApiKey.PRODUCE: 13,
        ApiKey.FETCH: 13,
        ApiKey.CREATE_TOPICS: 7,
        ApiKey.DELETE_TOPICS: 6,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
    }
)
"""The first version with topic ids. It is not offered if the gateway derives the ids."""

FEATURE_NEEDS: Mapping[str, Mapping[ApiKey, int]] = MappingProxyType(
    {
        # Transactions of KIP-890: a client that sees this level uses these versions.
        "transaction.version": {
            ApiKey.PRODUCE: 12,
            ApiKey.END_TXN: 5,
            ApiKey.TXN_OFFSET_COMMIT: 5,
        },
        "share.version": {ApiKey.SHARE_GROUP_HEARTBEAT: 1, ApiKey.SHARE_FETCH: 1},
        "streams.version": {ApiKey.STREAMS_GROUP_HEARTBEAT: 0},
    }
)
"""Features of the cluster that are passed on only if these apis are offered up to these
versions."""
