"""The anchor under attack: simultaneous rivals, and admins at bad times.
test_promises_with_kafka.py covers normal operation."""

from collections import defaultdict
from functools import partial

import pytest
import trio

from gateway.state_log.memory import MemoryLog
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_codecs.error_codes import ErrorCode
from tests.support.direct_clients import (
    RECORDS,
    anchor_in,
    consume_for,
    produce,
    records_in,
    remove_anchor,
)
from tests.support.gateway import whole_gateway
from tests.support.group_client import GroupClient, fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, PARTITIONS, TOPIC, KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

ROUNDS = 5
CALM_ROUNDS = 4
LIMIT_S = 30


def gives(answer: ConsumerGroupHeartbeatResponse) -> bool:
    """Whether partitions are in it."""
    return bool(answer.assignment and answer.assignment.topic_partitions)


@pytest.mark.parametrize("is_same_log", [True, False])
async def test_one_of_two_gateways_that_start_at_once_gets_the_group(
    kafka: KafkaCluster, is_same_log: bool
) -> None:
    """Each has a member that joins. One gets all partitions, and the other must retry, permanently.
    With the same state log one may replace the other at first, and fences its member: a real state
    log has one owner, but not the ones of this test. The newer gateway remains."""
    logs = MemoryLog(), MemoryLog()
    if is_same_log:
        logs[1].id, logs[1].run_id = logs[0].id, logs[0].run_id + 1
    answers: dict[int, ConsumerGroupHeartbeatResponse] = {}

    async def beat(number: int, client: GroupClient) -> None:
        before = answers.get(number)
        epoch = before.member_epoch if before is not None and not before.error_code else 0
        answers[number] = await client.native(f"m{number}", epoch)

    async def owners(*clients: GroupClient) -> list[int]:
        async with trio.open_nursery() as nursery:
            for number, client in enumerate(clients):
                nursery.start_soon(beat, number, client)
        return [number for number, answer in answers.items() if not answer.error_code]

    for _ in range(ROUNDS):
        group = fresh_group("contested")
        answers.clear()
        async with (
            whole_gateway(kafka.addresses, state_log=logs[0]) as first,
            whole_gateway(kafka.addresses, state_log=logs[1]) as second,
            group_client(first.address, group) as one,
            group_client(second.address, group) as other,
        ):
            rounds: list[list[int]] = []
            with trio.fail_after(LIMIT_S):
                while rounds[-CALM_ROUNDS:] not in (CALM_ROUNDS * [[0]], CALM_ROUNDS * [[1]]):
                    rounds.append(await owners(one, other))
                    assert is_same_log or rounds[0] == rounds[-1] in ([0], [1])
            (loser,) = {0, 1} - set(rounds[-1])
            assert answers[loser].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert loser == 0 or not is_same_log


async def test_a_group_deleted_as_it_empties_returns_intact(kafka: KafkaCluster) -> None:
    """The admin deletes repeatedly, while a member leaves and another joins. The group is deleted
    or it is not empty, and a member that is in it at the end is hosted."""
    group = fresh_group("deleted")
    codes: set[int] = set()
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, group) as member,
        group_client(gateway.address, group) as admin,
        trio.open_nursery() as nursery,
    ):

        async def delete() -> None:
            while True:
                codes.add(await admin.delete())

        nursery.start_soon(delete)
        for number in range(4 * ROUNDS):
            with trio.fail_after(LIMIT_S):
                while (joined := await member.native(f"m{number}")).error_code:
                    assert joined.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert gives(joined)
            epoch = joined.member_epoch
            stored = await member.commit({0: number}, member_id=f"m{number}", epoch=epoch)
            assert stored == {0: 0}
            await anchor_in(direct)
            await member.native(f"m{number}", -1)
        nursery.cancel_scope.cancel()
    assert codes <= {
        0,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }, codes


async def test_a_direct_consumer_and_one_behind_the_gateway_never_both_have_everything(
    kafka: KafkaCluster,
) -> None:
    """Both start at the same moment. If the anchor reaches the cluster first, the direct consumer
    is refused; otherwise both share the group in the cluster."""
    await trio.to_thread.run_sync(produce, kafka.bootstrap_servers, TOPIC, PARTITIONS)
    total = await trio.to_thread.run_sync(records_in, kafka.bootstrap_servers, TOPIC, PARTITIONS)
    records: defaultdict[str, list[int]] = defaultdict(list)

    async def consume(servers: str, group: str, protocol: str) -> None:
        consumer = partial(consume_for, servers, TOPIC, group, protocol, 5.0)
        got, _ = await trio.to_thread.run_sync(consumer)
        records[group].append(got)

    async with whole_gateway(kafka.addresses) as gateway, trio.open_nursery() as nursery:
        for protocol in kafka.protocols:
            for _ in range(3):
                group = fresh_group(f"contested-{protocol}")
                for servers in (kafka.bootstrap_servers, gateway.bootstrap_servers):
                    nursery.start_soon(consume, servers, group, protocol)
    assert all(total <= sum(record) < 2 * total for record in records.values()), (total, records)


async def test_consumers_continue_while_the_anchor_is_removed_repeatedly(
    kafka: KafkaCluster,
) -> None:
    """Real consumers of both protocols come and go, and retry refused requests."""
    await trio.to_thread.run_sync(produce, kafka.bootstrap_servers, TOPIC, PARTITIONS)
    group = fresh_group("harassed")
    records: list[int] = []
    failures: set[str] = set()
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses) as gateway,
        trio.open_nursery() as harassing,
    ):

        async def harass() -> None:
            while True:
                await trio.sleep(0.3)
                await remove_anchor(direct)

        async def consume(protocol: str, length_s: float) -> None:
            consumer = partial(
                consume_for, gateway.bootstrap_servers, TOPIC, group, protocol, length_s
            )
            got, errors = await trio.to_thread.run_sync(consumer)
            records.append(got)
            failures.update(errors)

        harassing.start_soon(harass)
        with trio.fail_after(LIMIT_S):
            while sum(records) < RECORDS:
                async with trio.open_nursery() as nursery:
                    for number, protocol in enumerate(("classic", "consumer", "classic")):
                        nursery.start_soon(consume, protocol, 2.5 + number)
                        await trio.sleep(1)
        harassing.cancel_scope.cancel()
    assert not failures
