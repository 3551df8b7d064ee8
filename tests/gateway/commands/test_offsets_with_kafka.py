"""`groupferry offsets` through a gateway in front of Apache Kafka."""

from pathlib import Path

import pytest
import trio

from gateway.addresses import Address
from gateway.cluster.access import PLAIN_ACCESS
from gateway.commands.offset_target import Target, parse_target
from gateway.commands.offsets import OffsetsRefused, delete, reset
from gateway.control.client import give
from gateway.control.messages import AdoptCommand
from gateway.operators import OperatorsConfig
from kafka_codecs.offset_fetch import OffsetFetchRequest
from tests.gateway.board.test_lag_watch_with_kafka import produce
from tests.support.gateway import Gateway, whole_gateway
from tests.support.group_client import fresh_group, group_client
from tests.support.kafka_broker import KafkaCluster

TOPIC = frozenset({"numbers"})
LAST_VERSION_OF_ONE_GROUP = 7


async def committed_offsets(kafka: KafkaCluster, group: str) -> dict[int, int]:
    """The offsets of the group's topic, as the cluster itself has them."""
    async with group_client(kafka.addresses[0], group) as client:
        request = OffsetFetchRequest(group_id=group, topics=None)
        answer = await client.connection.ask(request, LAST_VERSION_OF_ONE_GROUP)
    return {
        partition.partition_index: partition.committed_offset
        for topic in answer.topics
        for partition in topic.partitions
        if partition.committed_offset >= 0
    }


async def reset_to(gateway: Gateway, group: str, target: Target, *, dry_run: bool = False) -> None:
    addresses = (Address(*gateway.address),)
    await reset(addresses, PLAIN_ACCESS, group, target, TOPIC, dry_run=dry_run)


@pytest.mark.parametrize("is_hosted", [False, True])
async def test_offsets_of_an_empty_group_are_reset_and_deleted(
    kafka: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_hosted: bool
) -> None:
    """The commands use the cluster's own apis, whether or not the gateway hosts the group. A dry
    run changes nothing, and a group with members is refused in one line."""
    group = fresh_group("offsets")
    end = await trio.to_thread.run_sync(produce, kafka)
    operators = OperatorsConfig(control_folder=tmp_path)
    with trio.fail_after(60):
        async with whole_gateway(kafka.addresses, operators=operators) as gateway:
            if is_hosted:
                await give(tmp_path, AdoptCommand(group_id=group))
            await reset_to(gateway, group, parse_target("latest"), dry_run=True)
            assert await committed_offsets(kafka, group) == {}
            await reset_to(gateway, group, parse_target("latest"))
            assert (await committed_offsets(kafka, group))[0] == end
            await reset_to(gateway, group, parse_target("-2"))
            assert (await committed_offsets(kafka, group))[0] == end - 2
            await reset_to(gateway, group, parse_target(f"{end + 1_000}"))
            assert (await committed_offsets(kafka, group))[0] == end
            assert f"{group}: 3 offsets reset" in capsys.readouterr().out
            async with group_client(gateway.address, group) as client:
                await client.enter()
                with pytest.raises(OffsetsRefused, match=r"it has 1 member \(.*stop its consumers"):
                    await reset_to(gateway, group, parse_target("earliest"))
            assert (await committed_offsets(kafka, group))[0] == end


async def test_deleted_offsets_are_gone(kafka: KafkaCluster) -> None:
    """Only the offsets of the named topics are deleted. A second time there is nothing to
    delete."""
    group = fresh_group("offsets")
    await trio.to_thread.run_sync(produce, kafka)
    with trio.fail_after(60):
        async with whole_gateway(kafka.addresses) as gateway:
            addresses = (Address(*gateway.address),)
            await reset_to(gateway, group, parse_target("latest"))
            await delete(addresses, PLAIN_ACCESS, group, TOPIC, dry_run=True)
            assert await committed_offsets(kafka, group) != {}
            await delete(addresses, PLAIN_ACCESS, group, TOPIC, dry_run=False)
            assert await committed_offsets(kafka, group) == {}
            with pytest.raises(OffsetsRefused, match="no committed offsets in these topics"):
                await delete(addresses, PLAIN_ACCESS, group, TOPIC, dry_run=False)
