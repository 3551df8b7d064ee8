"""Whether every broker can be reached under the address that the cluster gives to clients."""

from collections.abc import AsyncIterator, Mapping

import trio

from gateway.check.finding import Finding, Result, works
from gateway.cluster.access import Access
from gateway.cluster.broker_connection import Address, BrokerConnection
from gateway.cluster.errors import UpstreamError

SUBJECT = "brokers"
TIMEOUT_S = 10.0
BROKERS_AT_ONCE_MAX = 20


async def check_brokers(brokers: Mapping[int, Address], access: Access) -> AsyncIterator[Finding]:
    """A finding for each broker that cannot be reached, and one for the others."""
    failures: dict[int, str] = {}
    limit = trio.CapacityLimiter(BROKERS_AT_ONCE_MAX)

    async def reach(node_id: int, address: Address) -> None:
        async with limit:
            try:
                with trio.fail_after(TIMEOUT_S):
                    async with await BrokerConnection.open(*address, access=access):
                        pass
            except UpstreamError as error:
                failures[node_id] = str(error)
            except trio.TooSlowError:
                failures[node_id] = f"no answer in {TIMEOUT_S:g} s"

    async with trio.open_nursery() as nursery:
        for node_id, address in brokers.items():
            nursery.start_soon(reach, node_id, address)
    if reached := len(brokers) - len(failures):
        yield works(
            SUBJECT, f"{reached} of {len(brokers)} can be reached by their advertised names"
        )
    for node_id, reason in sorted(failures.items()):
        host, port = brokers[node_id]
        yield Finding(
            subject=SUBJECT,
            result=Result.FAILS,
            detail=f"broker {node_id} at {host}:{port}: {reason}",
            effect="clients of its partitions, and groups that it coordinates, get no answer",
            remedy="let the gateway's machine resolve and reach that address",
        )
