"""AddOffsetsToTxn (key 25), versions 0 to 4.

v1 lets a broker answer before it throttles; v2 may answer PRODUCER_FENCED; v3 is flexible; v4 may
answer TRANSACTION_ABORTABLE (KIP-890).

Errors: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR,
COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, CONCURRENT_TRANSACTIONS,
INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, wire
from kafka_codecs.primitives import Int16, Int32, Int64


@message(ApiKey.ADD_OFFSETS_TO_TXN, versions=range(5))
class AddOffsetsToTxnRequest(Struct):
    """Add the offsets of a group to a transaction."""

    transactional_id: str = wire(entity=Entity.TRANSACTIONAL_ID)
    producer_id: Int64
    producer_epoch: Int16
    group_id: str


@message(ApiKey.ADD_OFFSETS_TO_TXN, versions=range(5))
class AddOffsetsToTxnResponse(Struct):
    """Whether the coordinator added the group's offsets to the transaction."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
