"""The authorized operations of a hosted group come from the cluster, over the client's own
connection."""

from typing import Any

import pytest
import trio

from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.metadata import AUTHORIZED_OPERATIONS_OMITTED
from tests.support.fake_broker import running_fake_broker
from tests.support.gateway import QUICK, whole_gateway
from tests.support.group_client import group_client
from tests.support.offset_broker import OffsetBroker

READ_AND_DESCRIBE = (1 << 3) | (1 << 8)


def describing(version: int, *, asks: bool) -> Struct:
    """A request of either api. ConsumerGroupDescribe has one version here, 0."""
    if version == 0:
        return ConsumerGroupDescribeRequest(group_ids=("g",), include_authorized_operations=asks)
    return DescribeGroupsRequest(groups=("g",), include_authorized_operations=asks)


@pytest.mark.parametrize("version", [0, 3, 5, 6])
async def test_authorized_operations_are_returned_on_request(version: int) -> None:
    """For a hosted group the cluster knows only the anchor, but all permissions."""
    with trio.fail_after(20):
        async with (
            running_fake_broker(OffsetBroker(operations=READ_AND_DESCRIBE)) as broker,
            whole_gateway([broker.address], groups=QUICK) as gateway,
            group_client(gateway.address, "g") as client,
        ):
            assert (await client.native("n")).error_code == 0
            for asks in (True, False):
                message = describing(version, asks=asks)
                answer: Any = await client.connection.ask(message, version)
                (group,) = answer.groups
                assert [member.member_id for member in group.members] == ["n"]
                expected = READ_AND_DESCRIBE if asks else AUTHORIZED_OPERATIONS_OMITTED
                assert group.authorized_operations == expected
