"""Which groups we host: not those that somebody else serves.

A group with live members in the cluster itself is not hosted, or its partitions would have two
owners. What cannot be found out counts as unknown, and then nothing is answered but "try again".
Must not know what our engines hold: a group that is live here is never looked at.
"""

from dataclasses import dataclass
from enum import Enum, auto
from fnmatch import fnmatchcase
from typing import TypeVar

import structlog
import trio

from coordinator.errors import ErrorCode
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError
from gateway.groups.embedded_upstream import is_embedded
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_codecs.list_groups import ListGroupsRequest, ListGroupsResponse

log = structlog.get_logger()

REMEMBERED_MAX = 10_000
"""Groups remembered, per table; the oldest is forgotten, and looked at again if it shows up."""

FOUND_FREE_FOR_S = 5.0
"""How long a group that was found free is taken to be so, by requests that let nobody in."""

NAMED_OCCUPANTS_MAX = 5
"""Clients that a reason names; of the others it gives the number."""

OTHER_KINDS = ("share", "streams")
"""Types of groups that no member of ours could be in."""

NO_LONGER_LIVE = frozenset({"Empty", "Dead"})
"""States of a group without members."""

# ListGroups v5 is the first that knows types (KIP-848).
FIRST_LIST_GROUPS_WITH_TYPES = 5

_V = TypeVar("_V")


class Mode(Enum):
    """Who answers for a group."""

    HOSTED = auto()
    """Our engine."""
    FORWARDED = auto()
    """The cluster's coordinator, for good: another protocol, or the operator's wish."""
    OCCUPIED = auto()
    """The cluster's coordinator, because somebody is in the group there."""
    UNKNOWN = auto()
    """Nobody for now: the cluster does not say who is there."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The mode and its reason."""

    mode: Mode
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Occupants:
    """Live members of a group in the cluster itself."""

    protocol_type: str
    client_ids: tuple[str, ...]

    def __str__(self) -> str:
        named = sorted(set(self.client_ids))[:NAMED_OCCUPANTS_MAX]
        return f"{len(self.client_ids)} members ({', '.join(named)})"


@dataclass(frozen=True, slots=True)
class _OtherKind:
    """A live group of a kind that no consumer can join."""

    kind: str
    protocol_type: str = ""

    def __str__(self) -> str:
        return f"the members of a {self.kind} group of the same name"


class Hosting:
    """Decides per group; remembers what is forwarded for good, what was found free a moment ago,
    and what the log was told."""

    def __init__(self, cluster: Cluster, forward_patterns: tuple[str, ...]) -> None:
        self._cluster = cluster
        self._forward_patterns = forward_patterns
        self._forwarded: dict[str, None] = {}
        self._reported: dict[str, str] = {}
        self._found_free_s: dict[str, float] = {}

    def is_forwarded(self, group_id: str) -> bool:
        """Whether the group is forwarded whatever is in it."""
        return group_id in self._forwarded or any(
            fnmatchcase(group_id, pattern) for pattern in self._forward_patterns
        )

    def forward(self, group_id: str, why: str) -> None:
        """From now on the group belongs to the cluster's coordinator."""
        if group_id not in self._forwarded:
            log.info("group_forwarded", group_id=group_id, reason=why)
        self._forwarded[group_id] = None
        _forget_oldest(self._forwarded)

    async def look_lately(self, group_id: str) -> Verdict:
        """As `look`, for requests that let nobody in, such as each commit of a consumer that
        assigns itself: they do not ask the cluster again so soon."""
        found_free_s = self._found_free_s.get(group_id)
        is_fresh = (
            found_free_s is not None and trio.current_time() - found_free_s < FOUND_FREE_FOR_S
        )
        if is_fresh and not self.is_forwarded(group_id):
            return Verdict(Mode.HOSTED)
        return await self.look(group_id)

    async def look(self, group_id: str) -> Verdict:
        """Decide for a group that we do not serve at the moment."""
        self._found_free_s.pop(group_id, None)
        if self.is_forwarded(group_id):
            return Verdict(Mode.FORWARDED)
        try:
            occupants = await self._occupants(group_id)
        except UpstreamError as error:
            why = f"the cluster does not say who is in the group: {error}"
            self._report(group_id, "group_state_unknown", why)
            return Verdict(Mode.UNKNOWN, why)
        if occupants is None:
            self._reported.pop(group_id, None)
            self._found_free_s[group_id] = trio.current_time()
            _forget_oldest(self._found_free_s)
            return Verdict(Mode.HOSTED)
        if occupants.protocol_type not in ("", CONSUMER_PROTOCOL_TYPE):
            self.forward(group_id, f"its protocol type is {occupants.protocol_type}")
            return Verdict(Mode.FORWARDED)
        why = (
            f"{occupants} are in the group in the cluster itself: stop them or point them at the"
            " gateway, all of them, and the group is hosted from its next member on"
        )
        self._report(group_id, "group_occupied", why)
        return Verdict(Mode.OCCUPIED, why)

    def _report(self, group_id: str, event: str, why: str) -> None:
        """One line per group and reason, however often its clients ask."""
        if self._reported.get(group_id) != why:
            log.warning(event, group_id=group_id, reason=why)
        self._reported[group_id] = why
        _forget_oldest(self._reported)

    async def _occupants(self, group_id: str) -> _Occupants | _OtherKind | None:
        """Who is in the group in the cluster. Raises UpstreamError if that stays unclear.

        A live group of the new protocol looks Dead to DescribeGroups, and one of another kind to
        ConsumerGroupDescribe as well, so all are asked.
        """
        node_id = await self._cluster.coordinator_of(group_id)
        versions = await self._cluster.versions_of(node_id)
        if is_embedded(versions):
            return None  # it cannot tell
        classic: DescribeGroupsResponse = await self._cluster.ask(
            node_id, DescribeGroupsRequest(groups=(group_id,))
        )
        group = classic.groups[0]
        if group.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            raise UpstreamError(f"DescribeGroups failed with error {group.error_code}")
        if group.members:
            return _Occupants(group.protocol_type, tuple(m.client_id for m in group.members))
        if ApiKey.CONSUMER_GROUP_DESCRIBE not in versions:
            return None
        native = await self._native_occupants(node_id, group_id)
        _, list_groups = versions.get(ApiKey.LIST_GROUPS, (0, 0))
        if native is not None or list_groups < FIRST_LIST_GROUPS_WITH_TYPES:
            return native
        return await self._other_kind(node_id, group_id)

    async def _native_occupants(self, node_id: int, group_id: str) -> _Occupants | None:
        answer: ConsumerGroupDescribeResponse = await self._cluster.ask(
            node_id,
            ConsumerGroupDescribeRequest(
                group_ids=(group_id,), include_authorized_operations=False
            ),
        )
        group = answer.groups[0]
        if group.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            return None
        if group.error_code != ErrorCode.NONE:
            raise UpstreamError(f"ConsumerGroupDescribe failed with error {group.error_code}")
        if not group.members:
            return None
        client_ids = tuple(member.client_id for member in group.members)
        return _Occupants(CONSUMER_PROTOCOL_TYPE, client_ids)

    async def _other_kind(self, node_id: int, group_id: str) -> _OtherKind | None:
        """Share groups (KIP-932) and Streams groups (KIP-1071) have names in common with ours."""
        answer: ListGroupsResponse = await self._cluster.ask(
            node_id, ListGroupsRequest(types_filter=OTHER_KINDS)
        )
        if answer.error_code != ErrorCode.NONE:
            raise UpstreamError(f"ListGroups failed with error {answer.error_code}")
        for group in answer.groups:
            if group.group_id == group_id and group.group_state not in NO_LONGER_LIVE:
                return _OtherKind(group.group_type.lower())
        return None


def _forget_oldest(remembered: dict[str, _V]) -> None:
    if len(remembered) > REMEMBERED_MAX:
        del remembered[next(iter(remembered))]
