"""The lag of a group, and a roll on hold, in front of Apache Kafka."""

from pathlib import Path

import pytest
import trio
from confluent_kafka import Producer

from gateway.board import lag_watch
from gateway.board.views import GroupPage
from gateway.control.client import fetch_view, give
from gateway.control.messages import AllowCommand, DescribeGroup, HoldCommand
from gateway.observers import offset_reporter
from gateway.operators import OperatorsConfig
from kafka_codecs.error_codes import ErrorCode
from tests.support.gateway import whole_gateway
from tests.support.group_client import fresh_group, group_client
from tests.support.kafka_broker import KafkaCluster
from tests.support.until import until_answered

RECORDS = 5


def produce(kafka: KafkaCluster) -> int:
    """Write records to a partition. Returns its end."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    ends: list[int] = []
    for _ in range(RECORDS):
        producer.produce(
            "numbers",
            b"n",
            partition=0,
            on_delivery=lambda _, message: ends.append((message.offset() or 0) + 1),
        )
    producer.flush(30)
    return max(ends)


async def test_lag_is_what_the_cluster_has_beyond_the_commits(
    kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lag follows a commit. A consumer that switches while the group is on hold learns why, and
    the next one switches."""
    monkeypatch.setattr(lag_watch, "MEASURE_INTERVAL_S", 0.2)
    monkeypatch.setattr(offset_reporter, "INTERVAL_S", 0.2)
    group = fresh_group("lag")
    end = await trio.to_thread.run_sync(produce, kafka)

    async def page() -> GroupPage:
        return await fetch_view(tmp_path, DescribeGroup(group_id=group), GroupPage)

    operators = OperatorsConfig(control_folder=tmp_path)
    with trio.fail_after(60):
        async with (
            whole_gateway(kafka.addresses, operators=operators) as gateway,
            group_client(gateway.address, group) as client,
            group_client(gateway.address, group) as other,
        ):
            joined = await client.enter()
            codes = await client.commit(
                {0: end - RECORDS}, member_id=joined.member_id, epoch=joined.generation_id
            )
            assert codes == {0: 0}
            group_page = await until_answered(page, lambda group_page: group_page.lag is not None)
            assert (group_page.lag, group_page.policy) == (RECORDS, "allow")
            await client.commit({0: end}, member_id=joined.member_id, epoch=joined.generation_id)
            await until_answered(page, lambda page: page.lag == 0)
            await give(tmp_path, HoldCommand(group_id=group))
            refused = await other.native("n")
            assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            assert "holds the migration of this group at 0 members" in (refused.error_message or "")
            assert (await page()).policy == "hold"
            await give(tmp_path, AllowCommand(group_id=group))
            assert (await other.native("n")).error_code == 0
            assert (await page()).native_members == 1
