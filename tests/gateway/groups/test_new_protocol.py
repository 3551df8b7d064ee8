"""What a cluster says of the new protocol, and what follows for a release."""

from typing import Any, cast

import pytest

from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError
from gateway.groups.new_protocol import POLICY, new_protocol_of
from gateway.hosting.move_requests import NewProtocol
from kafka_codecs.api_versions import ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from kafka_codecs.apis import ApiKey
from kafka_codecs.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

NODE = 4
ABSENT = NewProtocol(why_no_natives="the cluster does not have it")


class Broker:
    """The group's coordinator."""

    def __init__(self, *, knows: bool = True, level: int = 1, policy: str | None = "Bidirectional"):
        self._versions = {ApiKey.API_VERSIONS: (0, 4)}
        if knows:
            self._versions[ApiKey.CONSUMER_GROUP_HEARTBEAT] = (0, 1)
        self._level, self._policy = level, policy

    async def coordinator_of(self, _group_id: str) -> int:
        return NODE

    async def versions_of(self, node_id: int) -> Any:
        assert node_id == NODE
        return self._versions

    async def ask(self, node_id: int, message: Any, _version: int | None = None) -> Any:
        assert node_id == NODE
        if isinstance(message, ApiVersionsRequest):
            feature = FinalizedFeatureKey(
                name="group.version", max_version_level=self._level, min_version_level=0
            )
            return ApiVersionsResponse(finalized_features=(feature,))
        (asked,) = message.resources
        assert (asked.resource_name, asked.configuration_keys) == (str(NODE), (POLICY,))
        config = DescribeConfigsResourceResult(
            name=POLICY, value=self._policy, read_only=True, is_sensitive=False, synonyms=()
        )
        result = DescribeConfigsResult(
            resource_type=4, resource_name=str(NODE), configs=(config,) if self._policy else ()
        )
        return DescribeConfigsResponse(results=(result,))


async def new_protocol_at(broker: Broker) -> NewProtocol:
    return await new_protocol_of(cast(Cluster, broker), "g")


@pytest.mark.parametrize("how", [{"knows": False}, {"level": 0}])
async def test_a_cluster_without_it_or_with_it_switched_off_takes_no_native_members(
    how: Any,
) -> None:
    """Kafka 3.9 lists the api."""
    assert await new_protocol_at(Broker(**how)) == ABSENT


@pytest.mark.parametrize("policy", ["Bidirectional", "UPGRADE"])
async def test_a_classic_member_may_come_first_where_the_group_can_be_upgraded(policy: str) -> None:
    assert await new_protocol_at(Broker(policy=policy)) == NewProtocol()


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("downgrade", f"the cluster keeps the two apart ({POLICY} = downgrade)"),
        (None, f"the cluster does not tell its {POLICY} (DESCRIBE_CONFIGS on the cluster)"),
    ],
)
async def test_a_mixed_group_needs_a_known_policy(policy: str | None, reason: str) -> None:
    assert await new_protocol_at(Broker(policy=policy)) == NewProtocol(why_not_mixed=reason)


async def test_a_cluster_that_does_not_answer_takes_no_native_members() -> None:
    class Silent(Broker):
        async def coordinator_of(self, _group_id: str) -> int:
            raise UpstreamError("it is gone")

    assert await new_protocol_at(Silent()) == NewProtocol(
        why_no_natives="the cluster does not say whether it has it (it is gone)"
    )
