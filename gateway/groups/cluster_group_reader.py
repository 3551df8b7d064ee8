"""Asks the cluster who is in a group. `gateway/hosting/group_routing.py` decides what follows."""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from gateway.batches import batches
from gateway.cluster.broker_connection import Versions
from gateway.cluster.cluster import Cluster
from gateway.cluster.embedded import is_embedded
from gateway.cluster.errors import UpstreamError
from gateway.hosting import identity
from gateway.hosting.lookup_outcome import (
    BrokerTooOld,
    LiveMembers,
    LookupFailed,
    LookupOutcome,
    NoMembers,
    OtherGroupType,
)
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    MemberType,
)
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka_codecs.error_codes import ErrorCode, name_of
from kafka_codecs.list_groups import ListGroupsRequest, ListGroupsResponse

GROUPS_PER_LOOKUP_MAX = 200
"""Groups in one question to a coordinator; the answer grows with their members."""

OTHER_KINDS = ("share", "streams")
"""Group types that share the namespace, but that no consumer can join."""

NO_LONGER_LIVE = frozenset({"Empty", "Dead"})
"""States of a group without members."""

_LASTING = frozenset(
    {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED}
)
"""What a coordinator that is ready says of a group."""

# ListGroups v5 is the first version with group types (KIP-848).
FIRST_LIST_GROUPS_WITH_TYPES = 5


class ClusterGroupReader:
    """Each coordinator is asked about LOOKED_AT_ONCE_MAX groups at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def look_up(self, group_id: str) -> LookupOutcome:
        """What the cluster says of one group."""
        return (await self.look_up_all((group_id,)))[group_id]

    async def describe(self, group_id: str) -> DescribedGroup | None:
        """The coordinator's description of a classic group, None if it gives none."""
        try:
            node_id = await self._cluster.coordinator_of(group_id)
            if identity.may_be_adopted(await self._cluster.versions_of(node_id)):
                question = DescribeGroupsRequest(groups=(group_id,))
                answer: DescribeGroupsResponse = await self._cluster.ask(node_id, question)
                return next((group for group in answer.groups if group.group_id == group_id), None)
        except UpstreamError:
            pass
        return None

    async def look_up_all(self, group_ids: Iterable[str]) -> Mapping[str, LookupOutcome]:
        """Look many groups up."""
        outcomes: dict[str, LookupOutcome] = {}
        at: defaultdict[int, list[str]] = defaultdict(list)
        for group_id, node in (await self._cluster.coordinators_of(group_ids)).items():
            if isinstance(node, UpstreamError):
                outcomes[group_id] = LookupFailed(str(node))
            else:
                at[node].append(group_id)
        for node_id, placed in at.items():
            for batch in batches(placed, GROUPS_PER_LOOKUP_MAX):
                outcomes |= await self._look_at_broker(node_id, batch)
        return outcomes

    async def _look_at_broker(
        self, node_id: int, group_ids: Sequence[str]
    ) -> Mapping[str, LookupOutcome]:
        try:
            versions = await self._cluster.versions_of(node_id)
            if is_embedded(versions):
                return dict.fromkeys(group_ids, NoMembers())  # the mock cluster describes no groups
            if not identity.may_hold(versions):
                return dict.fromkeys(group_ids, BrokerTooOld())
            return await self._occupants(node_id, group_ids, versions)
        except UpstreamError as error:
            return dict.fromkeys(group_ids, LookupFailed(str(error)))

    async def find_traces(self, group_ids: Sequence[str]) -> Mapping[str, bool]:
        """Whether the cluster has any trace of each group, be it an offset. Groups of which it says
        nothing for now are left out."""
        traces: dict[str, bool] = {}
        at: defaultdict[int, list[str]] = defaultdict(list)
        for group_id, node in (await self._cluster.coordinators_of(group_ids)).items():
            if not isinstance(node, UpstreamError):
                at[node].append(group_id)
        for node_id, placed in at.items():
            with contextlib.suppress(UpstreamError):
                if is_embedded(await self._cluster.versions_of(node_id)):
                    traces |= dict.fromkeys(placed, True)  # it describes no groups
                    continue
                answer: DescribeGroupsResponse = await self._cluster.ask(
                    node_id, DescribeGroupsRequest(groups=tuple(placed))
                )
                traces |= {
                    group.group_id: not is_unknown(group)
                    for group in answer.groups
                    if group.error_code in _LASTING
                }
        return traces

    async def _occupants(
        self, node_id: int, group_ids: Sequence[str], versions: Versions
    ) -> dict[str, LookupOutcome]:
        """The members of these groups in the cluster. Raises UpstreamError.

        Three apis are asked: DescribeGroups shows a live group of the new protocol as Dead, and
        ConsumerGroupDescribe does not know groups of other types.
        """
        outcomes = await self._classic_occupants(node_id, group_ids)
        takes_natives = ApiKey.CONSUMER_GROUP_DESCRIBE in versions
        if takes_natives:
            if rest := [group_id for group_id in group_ids if group_id not in outcomes]:
                outcomes |= await self._native_occupants(node_id, rest)
            rest = [
                group_id
                for group_id in group_ids
                if isinstance(outcomes.get(group_id), NoMembers | None)
            ]
            _, list_groups = versions.get(ApiKey.LIST_GROUPS, (0, 0))
            if rest and list_groups >= FIRST_LIST_GROUPS_WITH_TYPES:
                outcomes |= await self._other_kinds(node_id, rest)
        return {
            group_id: outcomes.get(group_id, NoMembers(takes_natives)) for group_id in group_ids
        }

    async def _classic_occupants(
        self, node_id: int, group_ids: Sequence[str]
    ) -> dict[str, LookupOutcome]:
        answer: DescribeGroupsResponse = await self._cluster.ask(
            node_id, DescribeGroupsRequest(groups=tuple(group_ids))
        )
        outcomes = _report_unanswered(group_ids, "DescribeGroups")
        for group in answer.groups:
            outcomes.pop(group.group_id, None)
            if group.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
                outcomes[group.group_id] = _report_error("DescribeGroups", group.error_code)
            elif group.members:
                outcomes[group.group_id] = LiveMembers.of(group)
        return outcomes

    async def _native_occupants(
        self, node_id: int, group_ids: Sequence[str]
    ) -> dict[str, LookupOutcome]:
        answer: ConsumerGroupDescribeResponse = await self._cluster.ask(
            node_id,
            ConsumerGroupDescribeRequest(
                group_ids=tuple(group_ids), include_authorized_operations=False
            ),
        )
        outcomes = _report_unanswered(group_ids, "ConsumerGroupDescribe")
        for group in answer.groups:
            outcomes.pop(group.group_id, None)
            if group.error_code == ErrorCode.UNSUPPORTED_VERSION:
                # The protocol is switched off, as it may be since Kafka 3.7.
                outcomes[group.group_id] = NoMembers(takes_natives=False)
            elif group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                continue
            elif group.error_code != ErrorCode.NONE:
                outcomes[group.group_id] = _report_error("ConsumerGroupDescribe", group.error_code)
            elif group.members:
                client_ids = tuple(member.client_id for member in group.members)
                native_ids = tuple(
                    frozenset({member.member_id, member.instance_id or member.member_id})
                    for member in group.members
                    if member.member_type != MemberType.CLASSIC
                )
                outcomes[group.group_id] = LiveMembers(
                    CONSUMER_PROTOCOL_TYPE,
                    client_ids,
                    native_ids=native_ids,
                    consumer_group=group,
                    tells_natives=all(
                        member.member_type != MemberType.UNKNOWN for member in group.members
                    ),
                )
        return outcomes

    async def _other_kinds(
        self, node_id: int, group_ids: Sequence[str]
    ) -> dict[str, LookupOutcome]:
        """Share groups (KIP-932) and Streams groups (KIP-1071) share the namespace of consumer
        groups."""
        answer: ListGroupsResponse = await self._cluster.ask(
            node_id, ListGroupsRequest(types_filter=OTHER_KINDS)
        )
        if answer.error_code != ErrorCode.NONE:
            raise UpstreamError(f"ListGroups failed with {name_of(answer.error_code)}")
        wanted = frozenset(group_ids)
        return {
            group.group_id: OtherGroupType(group.group_type.lower())
            for group in answer.groups
            if group.group_id in wanted and group.group_state not in NO_LONGER_LIVE
        }


def _report_unanswered(group_ids: Iterable[str], api: str) -> dict[str, LookupOutcome]:
    """Groups count as unknown until the broker's answer covers them."""
    return {
        group_id: LookupFailed(f"{api} left the group out of its answer") for group_id in group_ids
    }


def _report_error(api: str, error_code: int) -> LookupFailed:
    if error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return LookupFailed(
            f"{api} is not allowed: grant the gateway's user READ and DESCRIBE on it"
        )
    return LookupFailed(f"{api} failed with {name_of(error_code)}")


def is_unknown(group: DescribedGroup) -> bool:
    """Whether the cluster has no such group. A group with offsets but without members is Empty;
    from v6 on an unknown group is an error."""
    is_error_right = group.error_code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
    return is_error_right and group.group_state == "Dead" and not group.members
