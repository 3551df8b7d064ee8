"""ListTransactions from a table, in both directions."""

import pytest

from kafka_codecs.list_transactions import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tests.support.codecs import check_both_ways


@pytest.mark.parametrize(
    ("version", "wire"),
    [
        (0, "02 05 'Dead' 02 0000000000000003 00"),
        (2, "02 05 'Dead' 02 0000000000000003 ffffffffffffffff 00 00"),
    ],
)
def test_a_request_encodes_and_decodes(version: int, wire: str) -> None:
    """The bytes are written by hand from Kafka's schema."""
    request = ListTransactionsRequest(state_filters=("Dead",), producer_id_filters=(3,))
    check_both_ways(request, version, wire)


def test_a_response_encodes_and_decodes() -> None:
    """As above."""
    listed = ListedTransaction(transactional_id="x", producer_id=3, transaction_state="Empty")
    wire = """
        00000000 0000 01                    # throttle_time_ms, error_code, unknown_state_filters
        02 02 'x' 0000000000000003 06 'Empty' 00
        00
    """
    check_both_ways(ListTransactionsResponse(transaction_states=(listed,)), 0, wire)
