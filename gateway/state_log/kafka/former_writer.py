"""Aborts what the former writer of a log has left open.

It may have been cut off in the middle of a transaction. The next writer has the cluster abort
that, which answers CONCURRENT_TRANSACTIONS meanwhile. librdkafka asks again after half a second.
"""

from collections.abc import Sequence

import trio

from gateway.cluster.access import Access
from gateway.cluster.broker_connection import Address, BrokerConnection
from gateway.cluster.errors import UpstreamError
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import CoordinatorType, FindCoordinatorRequest
from kafka_codecs.init_producer_id import InitProducerIdRequest

WAIT_S = 1.0
"""After this time librdkafka continues alone: whatever keeps us from asking may keep it, too."""
ASK_AGAIN_S = 0.02
_LAST_VERSION_FOR_ONE_KEY = 3


async def fence_former_writer(
    upstream: Sequence[Address], access: Access, transactional_id: str, *, timeout_ms: int
) -> None:
    """Fence it, and wait until its transaction has ended. `timeout_ms`: that of transactions.

    Nothing depends on it but time, so whatever goes wrong is ignored. It is awaited also when
    cancelled: a request that comes later would fence the next writer.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
    )
    with trio.CancelScope(shield=True), trio.move_on_after(WAIT_S):
        for address in upstream:
            try:
                await _ask(address, access, request)
            except UpstreamError:
                continue  # the next one may have a better answer
            return


async def _ask(address: Address, access: Access, request: InitProducerIdRequest) -> None:
    """Raises UpstreamError."""
    assert request.transactional_id is not None
    question = FindCoordinatorRequest(
        key=request.transactional_id, key_type=CoordinatorType.TRANSACTION
    )
    async with await BrokerConnection.open(*address, access=access) as connection:
        coordinator = await connection.ask(question, _LAST_VERSION_FOR_ONE_KEY)
    if coordinator.error_code:
        return
    host, port = coordinator.host, coordinator.port
    async with await BrokerConnection.open(host, port, access=access) as connection:
        while True:
            answer = await connection.ask(request)
            if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                return
            await trio.sleep(ASK_AGAIN_S)
