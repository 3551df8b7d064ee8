"""The anchor under attack: rivals at the same moment, admins who come at the worst one.

What it promises in good order is in test_promises_with_kafka.py.
"""

from functools import partial

import pytest
import trio

from gateway.state_log.memory import MemoryLog
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.support.direct_clients import anchor_in, consume_for, produce, remove_anchor
from tests.support.gateway import Gateway, whole_gateway
from tests.support.group_client import GroupClient, fresh_group, group_client
from tests.support.kafka_broker import FETCH_TIMEOUT_S, PARTITIONS, TOPIC, KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

COORDINATOR_LOAD_IN_PROGRESS = 14
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
ROUNDS = 5
LIMIT_S = 30


def gives(answer: ConsumerGroupHeartbeatResponse) -> bool:
    """Whether partitions are in it."""
    return bool(answer.assignment and answer.assignment.topic_partitions)


@pytest.mark.parametrize("is_same_log", [True, False])
async def test_of_two_gateways_that_start_at_once_one_has_the_group(
    kafka: KafkaCluster, is_same_log: bool
) -> None:
    """Each has a member that wants in. One gets everything, the other is told to try again; and so
    it stays."""
    logs = MemoryLog(), MemoryLog()
    if is_same_log:
        logs[1].id = logs[0].id
    for _ in range(ROUNDS):
        group = fresh_group("contested")
        answers: dict[int, ConsumerGroupHeartbeatResponse] = {}

        async def beat(number: int, client: GroupClient, epoch: int) -> None:
            answers[number] = await client.native(f"m{number}", epoch)

        async with (
            whole_gateway(kafka.addresses, state_log=logs[0]) as first,
            whole_gateway(kafka.addresses, state_log=logs[1]) as second,
            group_client(first.address, group) as one,
            group_client(second.address, group) as other,
        ):
            epochs = {0: 0, 1: 0}
            for _ in range(3):
                async with trio.open_nursery() as nursery:
                    for number, client in enumerate((one, other)):
                        nursery.start_soon(beat, number, client, epochs[number])
                owners = [number for number, answer in answers.items() if not answer.error_code]
                assert len(owners) == 1, answers
                epochs = {number: answer.member_epoch for number, answer in answers.items()}
                loser = answers[1 - owners[0]]
                assert loser.error_code == COORDINATOR_LOAD_IN_PROGRESS
                epochs[1 - owners[0]] = 0


async def test_a_group_that_is_deleted_as_it_empties_comes_back_whole(kafka: KafkaCluster) -> None:
    """The admin comes over and over, while a member leaves and another one joins: the group is
    deleted, or it is not empty, and whoever is in it in the end is held."""
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
                codes.add(await admin.deleted())

        nursery.start_soon(delete)
        for number in range(4 * ROUNDS):
            with trio.fail_after(LIMIT_S):
                while (joined := await member.native(f"m{number}")).error_code:
                    assert joined.error_code == COORDINATOR_LOAD_IN_PROGRESS
            assert gives(joined)
            epoch = joined.member_epoch
            stored = await member.commit({0: number}, member_id=f"m{number}", epoch=epoch)
            assert stored == {0: 0}
            await anchor_in(direct)
            await member.native(f"m{number}", -1)
        nursery.cancel_scope.cancel()
    assert codes <= {0, COORDINATOR_LOAD_IN_PROGRESS, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND}, codes


@pytest.mark.parametrize(
    ("kafka", "protocol"),
    [("3.9", "classic"), ("4.3", "classic"), ("4.3", "consumer")],
    indirect=["kafka"],
)
async def test_of_two_consumers_only_one_gets_in_if_the_other_goes_around(
    kafka: KafkaCluster, protocol: str
) -> None:
    """They start at the same moment: whoever comes first in the cluster has the group."""
    await trio.to_thread.run_sync(produce, kafka.bootstrap_servers, TOPIC, PARTITIONS)
    async with whole_gateway(kafka.addresses) as gateway:
        for _ in range(3):
            group = fresh_group("contested")
            records: dict[str, int] = {}

            async def consume(servers: str) -> None:
                consumer = partial(consume_for, servers, TOPIC, group, protocol, 3.0)
                records[servers], _ = await trio.to_thread.run_sync(consumer)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(consume, kafka.bootstrap_servers)
                nursery.start_soon(consume, gateway.bootstrap_servers)
            assert sorted(map(bool, records.values())) == [False, True], records


@pytest.mark.parametrize(
    ("kafka", "protocol"),
    [("3.9", "classic"), ("3.9", "consumer"), ("4.3", "consumer")],
    indirect=["kafka"],
)
async def test_consumers_go_on_while_the_anchor_is_removed_over_and_over(
    kafka: KafkaCluster, protocol: str
) -> None:
    """Real ones that come and go: whatever they were refused they ask for again."""
    await trio.to_thread.run_sync(produce, kafka.bootstrap_servers, TOPIC, PARTITIONS)
    group = fresh_group("harassed")
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses) as gateway,
        trio.open_nursery() as harassing,
    ):

        async def harass() -> None:
            while True:
                await trio.sleep(0.3)
                await remove_anchor(direct)

        harassing.start_soon(harass)
        records: list[int] = []
        failures: set[str] = set()

        async def consume(length_s: float) -> None:
            consumer = partial(
                consume_for, gateway.bootstrap_servers, TOPIC, group, protocol, length_s
            )
            got, errors = await trio.to_thread.run_sync(consumer)
            records.append(got)
            failures.update(errors)

        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(consume, 4.0 + 3 * number)
                await trio.sleep(1)
        harassing.cancel_scope.cancel()
    assert not failures
    assert sum(records) >= 30, records
