"""Decides which groups the gateway hosts.

A group with live members in the cluster is not hosted: its partitions would have two owners. While
the cluster does not say who is in a group, clients are told to retry. This look only avoids
hopeless attempts; the anchor's own join decides in the end. A group that is live here is looked at
only after its anchor was refused or replaced.
"""

import contextlib
import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from fnmatch import fnmatchcase
from typing import TypeVar

import structlog
import trio

from gateway.anchor import identity
from gateway.anchor.identity import Gateway
from gateway.batches import batches
from gateway.cluster.broker_connection import Versions
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError
from gateway.events.event import Tell
from gateway.events.group_events import GroupForwarded
from gateway.events.log_lines import write_to_log
from gateway.groups.embedded_upstream import is_embedded
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.list_groups import ListGroupsRequest, ListGroupsResponse

log = structlog.get_logger()

REMEMBERED_MAX = 10_000
"""Entries per table. Beyond that the oldest group is forgotten, and looked at again when needed."""

LOOKED_AT_ONCE_MAX = 200
"""Groups in one question to a coordinator; the answer grows with their members."""

FOUND_FREE_FOR_S = 5.0
"""How long a group counts as free after a look, for requests that cannot add a member."""

FORWARDED_FOR_S = 60.0
"""How long a group counts as the cluster's after a look, for the same requests."""

NAMED_OCCUPANTS_MAX = 5
"""Clients named in a reason; the others are only counted."""

OTHER_KINDS = ("share", "streams")
"""Group types that share the namespace, but that no consumer can join."""

# Kafka Streams uses the consumer protocol type, with an assignor that keeps data of its own.
STREAMS_PROTOCOL = "stream"

NO_LONGER_LIVE = frozenset({"Empty", "Dead"})
"""States of a group without members."""

# ListGroups v5 is the first version with group types (KIP-848).
FIRST_LIST_GROUPS_WITH_TYPES = 5

_V = TypeVar("_V")


class Mode(Enum):
    """Who answers for a group."""

    HOSTED = auto()
    """The gateway's engine."""
    FORWARDED = auto()
    """The cluster's coordinator: the group uses another protocol, or the operator configured it."""
    OCCUPIED = auto()
    """The cluster's coordinator, because the group has members there."""
    ELSEWHERE = auto()
    """Another gateway, whose anchor holds the group."""
    UNKNOWN = auto()
    """No answer for now: the cluster does not say who is in the group."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The mode and the reason for it, which clients may see."""

    mode: Mode
    why: str = ""
    has_anchor: bool = False
    """Whether an anchor with our state log holds the group: of this process or of an earlier
    one."""


@dataclass(frozen=True, slots=True)
class _Occupants:
    """Live members of a group in the cluster itself."""

    protocol_type: str
    client_ids: tuple[str, ...]
    protocol: str = ""
    """The protocol in force, if the group is classic and has one."""
    anchored: DescribedGroup | None = None
    """The cluster's description of the group if its members are anchors; it says whose."""

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


_Found = _Occupants | _OtherKind | UpstreamError
"""The members of a group in the cluster, or why they are unknown."""


class Hosting:
    """Decides for each group. Remembers forwarded groups and free groups for a while, and which
    reasons were logged."""

    def __init__(
        self,
        cluster: Cluster,
        forward_patterns: tuple[str, ...],
        gateway: Gateway,
        *,
        longest_session_ms: int,
        tell: Tell = write_to_log,
    ) -> None:
        """`longest_session_ms`: how long a member may believe that it owns partitions without
        hearing from its coordinator."""
        self._cluster = cluster
        self._forward_patterns = forward_patterns
        self._gateway = gateway
        self._tell = tell
        self._replaced: dict[str, None] = {}
        self._forwarded: dict[str, float] = {}
        """When each group was last seen to be the cluster's."""
        self._reported: dict[str, str] = {}
        self._found_free: dict[str, tuple[float, Verdict]] = {}
        self._longest_session_s = longest_session_ms / 1000
        self._others_gone_s: dict[str, float] = {}

    def is_forwarded(self, group_id: str) -> bool:
        """Whether the group belongs to the cluster, as far as known."""
        return group_id in self._forwarded or self._is_configured(group_id)

    def _is_configured(self, group_id: str) -> bool:
        return any(fnmatchcase(group_id, pattern) for pattern in self._forward_patterns)

    def forward(self, group_id: str, why: str) -> None:
        """Leave the group to the cluster's coordinator until it is seen to be free again."""
        if self._forwarded.pop(group_id, None) is None:
            self._tell(GroupForwarded(reason=why), group_id)
        self._forwarded[group_id] = trio.current_time()
        _forget_oldest(self._forwarded)

    def note_replaced(self, group_id: str) -> None:
        """Note that another gateway with our state log has replaced our anchor.

        Until the group is free again, an anchor with our state log belongs to that gateway, not to
        an earlier run of this one.
        """
        self._replaced[group_id] = None
        _forget_oldest(self._replaced)

    async def look_lately(self, group_id: str) -> Verdict:
        """Like `look`, but a recent verdict is good enough. For requests that cannot add a member,
        such as every commit of a consumer that assigns itself."""
        return (await self.look_at_lately((group_id,)))[group_id]

    async def look_at_lately(self, group_ids: Iterable[str]) -> dict[str, Verdict]:
        """The same for many groups at once."""
        group_ids = tuple(group_ids)
        verdicts = {each: lately for each in group_ids if (lately := self._lately(each))}
        others = [each for each in group_ids if each not in verdicts]
        return verdicts | await self.look_at(others) if others else verdicts

    def _lately(self, group_id: str) -> Verdict | None:
        found_s, verdict = self._found_free.get(group_id, (-math.inf, None))
        forwarded_s = self._forwarded.get(group_id, -math.inf)
        if trio.current_time() - forwarded_s < FORWARDED_FOR_S:
            return Verdict(Mode.FORWARDED)
        return verdict if trio.current_time() - found_s < FOUND_FREE_FOR_S else None

    async def is_left_behind(self, group_id: str) -> bool:
        """Whether an anchor with our state log holds a group that has no anchor in this process:
        one of an earlier run, or one that failed to leave."""
        # The recent verdict may have seen an anchor that has left since.
        return (await self.look_lately(group_id)).has_anchor and (
            await self.look(group_id)
        ).has_anchor

    def is_ours(self, group: DescribedGroup) -> bool:
        """Whether the group's only member in the cluster is an anchor with our state log."""
        return (
            group.protocol_type == identity.PROTOCOL_TYPE
            and group.protocol_data == self._gateway.log_id
            and len(group.members) == 1
            and group.group_id not in self._replaced
        )

    async def look(self, group_id: str) -> Verdict:
        """Decide for a group that is not served here at the moment."""
        return (await self.look_at((group_id,)))[group_id]

    async def look_at(self, group_ids: Iterable[str]) -> dict[str, Verdict]:
        """Decide for groups that are not served here at the moment. Each coordinator is asked about
        LOOKED_AT_ONCE_MAX groups at a time."""
        verdicts: dict[str, Verdict] = {}
        unsure = []
        for group_id in group_ids:
            self._found_free.pop(group_id, None)
            if self._is_configured(group_id):
                verdicts[group_id] = self._forwarded_now(group_id, "as configured (groups.forward)")
            else:
                unsure.append(group_id)
        at: defaultdict[int, list[str]] = defaultdict(list)
        for group_id, found in (await self._cluster.coordinators_of(unsure)).items():
            if isinstance(found, UpstreamError):
                verdicts[group_id] = self._unknown_verdict(group_id, found)
            else:
                at[found].append(group_id)
        for node_id, placed in at.items():
            for some in batches(placed, LOOKED_AT_ONCE_MAX):
                verdicts |= await self._look_at_broker(node_id, some)
        return verdicts

    async def _look_at_broker(
        self, node_id: int, group_ids: Sequence[str]
    ) -> Mapping[str, Verdict]:
        try:
            versions = await self._cluster.versions_of(node_id)
            if not is_embedded(versions) and not identity.may_hold(versions):
                why = "its coordinator is older than Kafka 2.3, so no anchor can hold the group"
                return {each: self._forwarded_now(each, why) for each in group_ids}
            occupants = await self._occupants(node_id, group_ids, versions)
        except UpstreamError as error:
            return {each: self._unknown_verdict(each, error) for each in group_ids}
        return {each: self._verdict_on(each, occupants.get(each)) for each in group_ids}

    def _forwarded_now(self, group_id: str, why: str) -> Verdict:
        self.forward(group_id, why)
        return Verdict(Mode.FORWARDED)

    def _unknown_verdict(self, group_id: str, error: UpstreamError) -> Verdict:
        if group_id in self._forwarded:
            return Verdict(Mode.FORWARDED)
        why = "the cluster does not say who is in the group"
        self._report(group_id, "group_state_unknown", f"{why}: {error}")
        return Verdict(Mode.UNKNOWN, why)

    def _verdict_on(self, group_id: str, found: _Found | None) -> Verdict:
        if isinstance(found, UpstreamError):
            return self._unknown_verdict(group_id, found)
        if found is None:
            self._replaced.pop(group_id, None)
            self._forwarded.pop(group_id, None)
            return self._left_alone(group_id)
        if isinstance(found, _Occupants) and found.anchored is not None:
            return self._anchored(found.anchored)
        if found.protocol_type not in ("", CONSUMER_PROTOCOL_TYPE):
            return self._forwarded_now(group_id, f"its protocol type is {found.protocol_type}")
        if isinstance(found, _Occupants) and found.protocol == STREAMS_PROTOCOL:
            return self._forwarded_now(group_id, f"its protocol is {STREAMS_PROTOCOL}")
        self._forwarded.pop(group_id, None)
        why = (
            f"{found} are in the group in the cluster itself: stop all of them, or point them at"
            " the gateway, and the gateway hosts the group from the next join on"
        )
        self._report(group_id, "group_occupied", why)
        return Verdict(Mode.OCCUPIED, why)

    async def forgotten(self, group_ids: Sequence[str]) -> frozenset[str]:
        """The groups that the cluster has no trace of, not even an offset. Groups whose coordinator
        does not answer are left out."""
        forgotten: set[str] = set()
        at: defaultdict[int, list[str]] = defaultdict(list)
        for group_id, found in (await self._cluster.coordinators_of(group_ids)).items():
            if not isinstance(found, UpstreamError):
                at[found].append(group_id)
        for node_id, placed in at.items():
            with contextlib.suppress(UpstreamError):
                if is_embedded(await self._cluster.versions_of(node_id)):
                    continue
                answer: DescribeGroupsResponse = await self._cluster.ask(
                    node_id, DescribeGroupsRequest(groups=tuple(placed))
                )
                forgotten |= {each.group_id for each in answer.groups if _is_unknown(each)}
        return frozenset(forgotten)

    def _left_alone(self, group_id: str) -> Verdict:
        """Decide for a group without members in the cluster. After an anchor with a foreign state
        log has gone, its members may still believe that they own partitions, until their sessions
        are over."""
        wait_s = self._others_gone_s.get(group_id, 0.0) - trio.current_time()
        if wait_s <= 0:
            self._others_gone_s.pop(group_id, None)
            return self._free(group_id)
        why = (
            "its members are in another state log, or in one that was lost: the gateway grants"
            " nothing until their longest possible session has ended,"
            f" {self._longest_session_s:.0f} s after the other gateway's anchor was last seen"
            " (group.max.session.timeout.ms)"
        )
        self._report(group_id, "group_waits_for_sessions", why, level=logging.ERROR)
        return Verdict(Mode.UNKNOWN, why)

    def _free(self, group_id: str, *, has_anchor: bool = False) -> Verdict:
        self._reported.pop(group_id, None)
        verdict = Verdict(Mode.HOSTED, has_anchor=has_anchor)
        self._found_free[group_id] = trio.current_time(), verdict
        _forget_oldest(self._found_free)
        return verdict

    def _anchored(self, group: DescribedGroup) -> Verdict:
        """Decide for a group that an anchor holds: ours, one of an earlier run, or another
        gateway's.

        While an anchor rejoins, the group does not show its state log. Our own join then finds out.
        """
        group_id = group.group_id
        has_our_log = group.protocol_data in ("", self._gateway.log_id)
        if len(group.members) > 1:
            why = f"more than one gateway is in the group: {_whereabouts(group)}"
        elif group.members[0].member_metadata == self._gateway.run_id.encode():
            self._replaced.pop(group_id, None)
            return self._free(group_id, has_anchor=True)
        elif has_our_log and group_id not in self._replaced:
            return self._free(group_id, has_anchor=True)
        elif not group.protocol_data:
            return Verdict(Mode.UNKNOWN, "another gateway is about to take the group")
        elif has_our_log:
            why = f"a gateway with our state log has taken the group, {_whereabouts(group)}"
        else:
            why = (
                f"another gateway has the group, {_whereabouts(group)}, with the state log"
                f" {group.protocol_data}; ours is {self._gateway.log_id}"
            )
        self._others_gone_s[group_id] = trio.current_time() + self._longest_session_s
        _forget_oldest(self._others_gone_s)
        self._report(group_id, "group_hosted_elsewhere", why, level=logging.ERROR)
        return Verdict(Mode.ELSEWHERE, why)

    def _report(self, group_id: str, event: str, why: str, *, level: int = logging.WARNING) -> None:
        """Log one line per group and reason, however often its clients ask."""
        if self._reported.get(group_id) != why:
            log.log(level, event, group_id=group_id, reason=why)
        self._reported[group_id] = why
        _forget_oldest(self._reported)

    async def _occupants(
        self, node_id: int, group_ids: Sequence[str], versions: Versions
    ) -> Mapping[str, _Found]:
        """The members of these groups in the cluster, or why they are unknown; empty groups are
        left out. Raises UpstreamError.

        Three apis are asked: DescribeGroups shows a live group of the new protocol as Dead, and
        ConsumerGroupDescribe does not know groups of other types.
        """
        if is_embedded(versions):
            return {}  # the mock cluster cannot describe groups
        found = await self._classic_occupants(node_id, group_ids)
        rest = [each for each in group_ids if each not in found]
        if not rest or ApiKey.CONSUMER_GROUP_DESCRIBE not in versions:
            return found
        found |= await self._native_occupants(node_id, rest)
        rest = [each for each in rest if each not in found]
        _, list_groups = versions.get(ApiKey.LIST_GROUPS, (0, 0))
        if rest and list_groups >= FIRST_LIST_GROUPS_WITH_TYPES:
            found |= await self._other_kinds(node_id, rest)
        return found

    async def _classic_occupants(self, node_id: int, group_ids: Sequence[str]) -> dict[str, _Found]:
        answer: DescribeGroupsResponse = await self._cluster.ask(
            node_id, DescribeGroupsRequest(groups=tuple(group_ids))
        )
        found = _unanswered(group_ids, "DescribeGroups")
        for group in answer.groups:
            found.pop(group.group_id, None)
            if group.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
                why = f"DescribeGroups failed with error {group.error_code}"
                found[group.group_id] = UpstreamError(why)
            elif group.members:
                found[group.group_id] = _Occupants(
                    group.protocol_type,
                    tuple(member.client_id for member in group.members),
                    group.protocol_data,
                    group if group.protocol_type == identity.PROTOCOL_TYPE else None,
                )
        return found

    async def _native_occupants(self, node_id: int, group_ids: Sequence[str]) -> dict[str, _Found]:
        answer: ConsumerGroupDescribeResponse = await self._cluster.ask(
            node_id,
            ConsumerGroupDescribeRequest(
                group_ids=tuple(group_ids), include_authorized_operations=False
            ),
        )
        found = _unanswered(group_ids, "ConsumerGroupDescribe")
        for group in answer.groups:
            found.pop(group.group_id, None)
            if group.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                continue
            if group.error_code != ErrorCode.NONE:
                why = f"ConsumerGroupDescribe failed with error {group.error_code}"
                found[group.group_id] = UpstreamError(why)
            elif group.members:
                client_ids = tuple(member.client_id for member in group.members)
                found[group.group_id] = _Occupants(CONSUMER_PROTOCOL_TYPE, client_ids)
        return found

    async def _other_kinds(self, node_id: int, group_ids: Sequence[str]) -> dict[str, _Found]:
        """Share groups (KIP-932) and Streams groups (KIP-1071) share the namespace of consumer
        groups."""
        answer: ListGroupsResponse = await self._cluster.ask(
            node_id, ListGroupsRequest(types_filter=OTHER_KINDS)
        )
        if answer.error_code != ErrorCode.NONE:
            raise UpstreamError(f"ListGroups failed with error {answer.error_code}")
        wanted = frozenset(group_ids)
        return {
            group.group_id: _OtherKind(group.group_type.lower())
            for group in answer.groups
            if group.group_id in wanted and group.group_state not in NO_LONGER_LIVE
        }


def _unanswered(group_ids: Iterable[str], api: str) -> dict[str, _Found]:
    """Groups count as unknown until the broker's answer covers them."""
    return {each: UpstreamError(f"{api} left the group out of its answer") for each in group_ids}


def _is_unknown(group: DescribedGroup) -> bool:
    """Whether the cluster has no such group. A group with offsets but without members is Empty;
    from v6 on an unknown group is an error."""
    is_error_right = group.error_code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
    return is_error_right and group.group_state == "Dead" and not group.members


def _whereabouts(group: DescribedGroup) -> str:
    return ", ".join(f"{each.client_id} at {each.client_host}" for each in group.members)


def _forget_oldest(remembered: dict[str, _V]) -> None:
    if len(remembered) > REMEMBERED_MAX:
        del remembered[next(iter(remembered))]
