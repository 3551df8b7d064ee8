"""InitProducerId (key 22), versions 0 to 6.

- v1 lets a broker answer before it throttles; v2 is flexible; v3 lets a producer resume (KIP-360).
- v4 may answer PRODUCER_FENCED, v5 TRANSACTION_ABORTABLE (KIP-890).
- v6 adds the transaction that is under way, for two-phase commits (KIP-939).

Errors: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, NOT_COORDINATOR,
COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, CONCURRENT_TRANSACTIONS, PRODUCER_FENCED,
INVALID_PRODUCER_EPOCH, INVALID_TRANSACTION_TIMEOUT.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, wire
from kafka_codecs.primitives import Int16, Int32, Int64


@message(ApiKey.INIT_PRODUCER_ID, versions=range(7))
class InitProducerIdRequest(Struct):
    """Request a producer id; the transactional id is null for an idempotent producer."""

    transactional_id: str | None = wire(entity=Entity.TRANSACTIONAL_ID)
    transaction_timeout_ms: Int32
    producer_id: Int64 = wire(since=3, default=-1)
    producer_epoch: Int16 = wire(since=3, default=-1)
    enable2_pc: bool = wire(since=6, default=False)
    keep_prepared_txn: bool = wire(since=6, default=False)


@message(ApiKey.INIT_PRODUCER_ID, versions=range(7))
class InitProducerIdResponse(Struct):
    """The producer id and its epoch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = wire(since=6, default=-1, ignorable=True)
    ongoing_txn_producer_epoch: Int16 = wire(since=6, default=-1, ignorable=True)
