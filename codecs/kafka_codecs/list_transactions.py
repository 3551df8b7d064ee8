"""ListTransactions (key 66), versions 0 to 2.

v1 adds the filter by duration (KIP-994), v2 the one by a pattern of transactional ids (KIP-1152).

Errors, top-level: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
INVALID_REGULAR_EXPRESSION (v2).
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32, Int64


@message(ApiKey.LIST_TRANSACTIONS, versions=range(3))
class ListTransactionsRequest(Struct):
    """List the transactional ids of a broker. Empty filters match all of them."""

    state_filters: tuple[str, ...]
    producer_id_filters: tuple[Int64, ...]
    duration_filter: Int64 = wire(since=1, default=-1)
    transactional_id_pattern: str | None = wire(since=2, default=None)


@structure
class ListedTransaction(Struct):
    """A transactional id, and the state of its transaction."""

    transactional_id: str = wire(entity=Entity.TRANSACTIONAL_ID)
    producer_id: Int64
    transaction_state: str


@message(ApiKey.LIST_TRANSACTIONS, versions=range(3))
class ListTransactionsResponse(Struct):
    """The transactional ids that match."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[ListedTransaction, ...] = ()
