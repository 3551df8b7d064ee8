"""Asks the gateway to describe the group, as an admin tool would.

Keeps one connection to the group's coordinator, and looks the coordinator up again when the
connection breaks or the coordinator moves.
"""

from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from gateway.demo.group_view import ObservedGroup
from kafka_codecs import WireError
from kafka_codecs.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_codecs.describe_groups import DescribeGroupsRequest
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import FindCoordinatorRequest

_LAST_VERSION_FOR_ONE_KEY = 3


class GroupDescription:
    """Describes one group repeatedly, on one connection."""

    def __init__(self, bootstrap: str, group: str, access: Access = PLAIN_ACCESS) -> None:
        self._bootstrap = bootstrap
        self._access = access
        self._group = group
        self._coordinator: BrokerConnection | None = None

    def close(self) -> None:
        """Close the connection. The next `fetch` opens another."""
        if self._coordinator is not None:
            self._coordinator.close()
            self._coordinator = None

    async def fetch(self) -> ObservedGroup | str:
        """The group as it is described now, or a text that says why it is not."""
        try:
            description = await self._describe(self._coordinator or await self._find_coordinator())
        except (UpstreamError, WireError) as failure:
            description = str(failure)
        if isinstance(description, str):
            self.close()
        return description

    async def _describe(self, coordinator: BrokerConnection) -> ObservedGroup | str:
        """Ask for a consumer group first. A classic group answers with an error."""
        answer = await coordinator.ask(
            ConsumerGroupDescribeRequest(
                group_ids=(self._group,), include_authorized_operations=False
            )
        )
        (group,) = answer.groups
        if group.error_code == 0:
            return ObservedGroup.of_consumer_group(group)
        if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            return f"ConsumerGroupDescribe was answered with error {group.error_code}"
        answer = await coordinator.ask(DescribeGroupsRequest(groups=(self._group,)))
        (classic,) = answer.groups
        if classic.error_code:
            return f"DescribeGroups was answered with error {classic.error_code}"
        return ObservedGroup.of_classic_group(classic)

    async def _find_coordinator(self) -> BrokerConnection:
        async with await self._connect(self._bootstrap) as connection:
            coordinator = await connection.ask(
                FindCoordinatorRequest(key=self._group), _LAST_VERSION_FOR_ONE_KEY
            )
        if coordinator.error_code:
            raise UpstreamError(f"FindCoordinator was answered with error {coordinator.error_code}")
        self._coordinator = await self._connect(f"{coordinator.host}:{coordinator.port}")
        return self._coordinator

    async def _connect(self, address: str) -> BrokerConnection:
        host, _, port = address.rpartition(":")
        return await BrokerConnection.open(
            host, int(port), client_id="groupferry-demo", access=self._access
        )
