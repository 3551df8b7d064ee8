"""ListGroups in front of a real cluster lists each group once, at its coordinator's listener."""

from collections import Counter
from contextlib import AsyncExitStack

import pytest

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tests.support.gateway import Gateway, whole_gateway
from tests.support.group_client import find_coordinator, fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

GROUPS_OF_A_KIND = 6
SESSION_TIMEOUT_MS = 60_000


async def lists(
    gateway: Gateway, request: ListGroupsRequest, version: int
) -> dict[int, list[ListedGroup]]:
    """The list of each broker's listener, by node id."""
    listings = {}
    for node_id, address in (await gateway.listeners()).items():
        async with await BrokerConnection.open(*address) as connection:
            answer: ListGroupsResponse = await connection.ask(request, version)
        assert answer.error_code == 0
        listings[node_id] = list(answer.groups)
    return listings


async def test_each_group_is_listed_once_at_its_coordinator(three_brokers: KafkaCluster) -> None:
    """Classic, native and empty groups, and the cluster's own, with and without filters."""
    kinds = ("classic", "native", "empty", "foreign")
    names = {kind: [fresh_group(kind) for _ in range(GROUPS_OF_A_KIND)] for kind in kinds}
    async with whole_gateway(three_brokers.addresses, max_groups=64) as gateway:
        async with AsyncExitStack() as stack:
            for kind, groups in names.items():
                for group in groups:
                    client = await stack.enter_async_context(group_client(gateway.address, group))
                    match kind:
                        case "native":
                            assert (await client.native("n")).error_code == 0
                        case "foreign":
                            await client.enter(protocol_type="connect", protocol="default")
                        case _:
                            joined = await client.enter(session_timeout_ms=SESSION_TIMEOUT_MS)
                            if kind == "empty":
                                await client.leave(joined.member_id)
            everywhere = {
                group: (await find_coordinator(three_brokers.addresses[0], group)).node_id
                for groups in names.values()
                for group in groups
            }

            async def listed_kinds(
                version: int = 5, states: tuple[str, ...] = (), types: tuple[str, ...] = ()
            ) -> set[str]:
                """The listed kinds, each of whose groups is at its coordinator."""
                request = ListGroupsRequest(states_filter=states, types_filter=types)
                listings = await lists(gateway, request, version)
                places = [
                    (group.group_id, node_id)
                    for node_id, groups in listings.items()
                    for group in groups
                    if group.group_id in everywhere
                ]
                assert set(places) <= set(everywhere.items())
                assert set(Counter(places).values()) == {1}
                seen = {group for group, _ in places}
                shown = {kind for kind, groups in names.items() if seen.issuperset(groups)}
                assert seen == {group for kind in shown for group in names[kind]}
                return shown

            assert len(set(everywhere.values())) > 1, "brokers lead what others' tests left them"
            for version in (0, 3, 5):
                assert await listed_kinds(version) == set(kinds)
            assert await listed_kinds(states=("Stable",)) == {"classic", "native", "foreign"}
            assert await listed_kinds(states=("empty",)) == {"empty"}
            assert await listed_kinds(types=("consumer",)) == {"native"}
            assert await listed_kinds(types=("Classic",), states=("Empty",)) == {"empty"}
        gateway.stop.set()
        await gateway.ended.wait()
