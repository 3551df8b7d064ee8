"""EndTxn (key 26), versions 0 to 5.

- v1 lets a broker answer before it throttles; v2 may answer PRODUCER_FENCED; v3 is flexible.
- v4 may answer TRANSACTION_ABORTABLE, v5 returns the producer's next epoch (KIP-890).

Errors: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
COORDINATOR_LOAD_IN_PROGRESS, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH,
INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, wire
from kafka_codecs.primitives import Int16, Int32, Int64


@message(ApiKey.END_TXN, versions=range(6))
class EndTxnRequest(Struct):
    """Commit or abort a transaction."""

    transactional_id: str = wire(entity=Entity.TRANSACTIONAL_ID)
    producer_id: Int64
    producer_epoch: Int16
    committed: bool


@message(ApiKey.END_TXN, versions=range(6))
class EndTxnResponse(Struct):
    """Whether the transaction ended, and the producer's next id and epoch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = wire(since=5, default=-1, ignorable=True)
    producer_epoch: Int16 = wire(since=5, default=-1, ignorable=True)
