"""DescribeTransactions from a table, in both directions."""

from kafka_codecs.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionDescription,
    TransactionTopic,
)
from tests.support.codecs import check_both_ways


def test_a_request_encodes_and_decodes() -> None:
    """The bytes are written by hand from Kafka's schema."""
    check_both_ways(DescribeTransactionsRequest(transactional_ids=("x",)), 0, "02 02 'x' 00")


def test_a_response_encodes_and_decodes() -> None:
    """As above."""
    transaction = TransactionDescription(
        transactional_id="x",
        transaction_state="Ongoing",
        transaction_timeout_ms=1,
        transaction_start_time_ms=2,
        producer_id=3,
        producer_epoch=4,
        topics=(TransactionTopic(topic="t", partitions=(5,)),),
    )
    wire = """
        00000000                            # throttle_time_ms
        02 0000 02 'x' 08 'Ongoing'         # error_code, transactional_id, transaction_state
          00000001 0000000000000002         # transaction_timeout_ms, transaction_start_time_ms
          0000000000000003 0004             # producer_id, producer_epoch
          02 02 't' 02 00000005 00          # topics
          00
        00
    """
    check_both_ways(DescribeTransactionsResponse(transaction_states=(transaction,)), 0, wire)
