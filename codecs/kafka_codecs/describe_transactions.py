"""DescribeTransactions (key 65), version 0 (KIP-664).

Errors, per transactional id: TRANSACTIONAL_ID_NOT_FOUND, TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
"""

from kafka_codecs.api_keys import ApiKey
from kafka_codecs.declaration import Entity, Struct, message, structure, wire
from kafka_codecs.primitives import Int16, Int32, Int64


@message(ApiKey.DESCRIBE_TRANSACTIONS, versions=range(1))
class DescribeTransactionsRequest(Struct):
    """Describe the transactions of these transactional ids."""

    transactional_ids: tuple[str, ...] = wire(entity=Entity.TRANSACTIONAL_ID)


@structure
class TransactionTopic(Struct):
    """The partitions of a topic in a transaction."""

    topic: str = wire(entity=Entity.TOPIC)
    partitions: tuple[Int32, ...]


@structure
class TransactionDescription(Struct):
    """A transactional id, its producer, and its transaction."""

    error_code: Int16 = 0
    transactional_id: str = wire(entity=Entity.TRANSACTIONAL_ID)
    transaction_state: str
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: tuple[TransactionTopic, ...]


@message(ApiKey.DESCRIBE_TRANSACTIONS, versions=range(1))
class DescribeTransactionsResponse(Struct):
    """The answer for each transactional id."""

    throttle_time_ms: Int32 = 0
    transaction_states: tuple[TransactionDescription, ...] = ()
