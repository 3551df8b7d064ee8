"""What a group's coordinator says of its configs."""

from typing import cast

import pytest

from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError
from gateway.groups.coordinator_configs import LONGEST_SESSION, longest_session_ms_of
from kafka_codecs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

NODE = 4


class Broker:
    """The group's coordinator. It tells no value, or is away, if there is none."""

    def __init__(self, value: str | None, *, is_away: bool = False) -> None:
        self._value, self._is_away = value, is_away

    async def coordinator_of(self, _group_id: str) -> int:
        return NODE

    async def ask(self, node_id: int, message: DescribeConfigsRequest) -> DescribeConfigsResponse:
        if self._is_away:
            raise UpstreamError("nobody answers")
        (asked,) = message.resources
        assert (node_id, asked.resource_name) == (NODE, str(NODE))
        assert asked.configuration_keys == (LONGEST_SESSION,)
        config = DescribeConfigsResourceResult(
            name=LONGEST_SESSION, value=self._value, read_only=True, is_sensitive=False, synonyms=()
        )
        result = DescribeConfigsResult(
            resource_type=4, resource_name=str(NODE), configs=(config,) if self._value else ()
        )
        return DescribeConfigsResponse(results=(result,))


@pytest.mark.parametrize(
    ("broker", "longest_ms"),
    [(Broker("45000"), 45_000), (Broker(None), None), (Broker("1", is_away=True), None)],
)
async def test_the_coordinator_reveals_the_longest_session_that_it_admits(
    broker: Broker, longest_ms: int | None
) -> None:
    """The cluster keeps that to itself from users without DESCRIBE_CONFIGS."""
    assert await longest_session_ms_of(cast(Cluster, broker), "g") == longest_ms
