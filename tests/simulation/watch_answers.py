"""Checks the answers that leave the gateway, and the commits that the cluster may still store."""

from collections.abc import Callable, Sequence, Set

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.events import (
    ClaimReceived,
    ConfigsReceived,
    DeleteGroupReceived,
    OffsetCommitReceived,
    OffsetDeleteReceived,
    OffsetFetchReceived,
    Request,
)
from coordinator.interface.replies import (
    ConsumerHeartbeatReply,
    JoinGroupReply,
    Reply,
    SyncGroupReply,
)
from coordinator.interface.topics import Partition, Topics
from gateway.hosting.anchor import ABOUT_THE_ANCHOR
from kafka_codecs import WireError
from kafka_codecs.consumer_protocol import decode_assignment
from tests.simulation.client import RETRIABLE, Client
from tests.simulation.cluster import Cluster, Commit
from tests.simulation.connection import FORWARDED, REFUSED
from tests.simulation.invariants import Invariant, require
from tests.simulation.process import Applied, Process

ADMINISTRATIVE = (ClaimReceived, ConfigsReceived, DeleteGroupReceived, OffsetDeleteReceived)


class AnswerWatch:
    """Checks each answer as it leaves the gateway."""

    def __init__(
        self,
        cluster: Cluster,
        clients: Sequence[Client],
        state: Callable[[], GroupState],
        exempt: Callable[[], Set[Partition]],
        heirs: Callable[[Commit], Set[str]],
    ) -> None:
        """`exempt`: the partitions that no rule could reserve for one client. `heirs`: the members
        that have had the place of a commit's sender since."""
        self._cluster, self._clients = cluster, clients
        self._state, self._exempt, self._heirs = state, exempt, heirs

    def leaves(
        self, who: str, request: Request, reply: Reply, applied: Applied | None, process: Process
    ) -> None:
        """An answer that gives partitions leaves only after the cluster has confirmed the anchor,
        with a request that was sent after the decision."""
        if not process.may_answer:
            _check_lease(who, request, reply)
        if isinstance(request, OffsetCommitReceived) and request.member_id:
            is_clusters = (
                reply.error in ABOUT_THE_ANCHOR and getattr(reply, "reason", "") == REFUSED
            )
            require(not is_clusters, Invariant.HIDDEN, who, "gets", reply.error)
        if not (reply.error or reply.reason or isinstance(request, OffsetFetchReceived)):
            require(applied is not None, Invariant.LOGGED, who, "gets", reply, "too early")
        granted = _granted_partitions(reply, applied.topics if applied is not None else None)
        if granted is None:
            return
        if applied is not None and applied.is_of_move:
            require(not granted, Invariant.MOVES, who, "gets", granted, "in a move")
            return
        if self._cluster.holds_anchors:
            require(
                applied is not None and process.confirmed > applied.asks,
                Invariant.ANCHORED,
                who,
                "gets",
                reply,
                "but the anchor was last confirmed by request",
                process.confirmed,
                "and the decision followed as many requests as",
                applied,
            )
            require(
                applied is not None and applied.at_ms >= process.given_up_ms,
                Invariant.ANCHORED,
                who,
                "gets",
                reply,
                "though a consumer has had the group since the decision",
            )
        if not isinstance(self._state().group, ConsumerGroup) or not self._is_honest(who):
            return  # in a classic group the leader decides, and may believe a liar
        begun = granted - self._exempt()
        for commit in self._cluster.may_store(lambda commit: commit.positions.keys() & begun):
            require(
                self._may_have_sent(request, commit),
                Invariant.IN_FLIGHT,
                who,
                "gets",
                commit.positions.keys() & begun,
                "and the cluster may still store a commit of",
                commit.who,
            )

    def check_fetch(self, who: str, fetch: OffsetFetchReceived) -> None:
        """The offsets of a fetch are final: no commit of another client may still change them. A
        classic group does not ask who fetches (rule 2.9), and up to v8 no fetch tells (rule 3.15):
        a former member learns only from its next heartbeat or commit that it is none. The cluster
        has answered earlier than the client reads the offsets here, if that was frozen meanwhile
        (seed 2026216094)."""
        client = next((client for client in self._clients if client.name == who), None)
        if fetch.partitions is None or client is None or not client.is_honest:
            return
        group = self._state().group
        is_there = group is self._cluster.group.state
        is_unchecked = is_there or isinstance(group, ClassicGroup) or fetch.member_id is None
        asker = fetch.member_id or client.member_id
        if is_unchecked and group is not None and asker not in group.members:
            return
        wanted = fetch.partitions - self._exempt()
        for commit in self._cluster.may_store(lambda commit: commit.positions.keys() & wanted):
            require(
                commit.who == who,
                Invariant.IN_FLIGHT,
                who,
                "fetches what can still be changed by a commit of",
                commit.who,
            )

    def _may_have_sent(self, request: Request, commit: Commit) -> bool:
        """Whether the member, or one whose place it has taken, sent the commit, or an admin before
        the member joined. Its fetch then waits for the commit."""
        if not commit.request.member_id:
            return True
        instance_id = getattr(request, "instance_id", None)
        if instance_id is not None and instance_id == commit.request.instance_id:
            return True
        return getattr(request, "member_id", "") in self._heirs(commit)

    def _is_honest(self, who: str) -> bool:
        return any(client.name == who and client.is_honest for client in self._clients)


def _check_lease(who: str, request: Request, reply: Reply) -> None:
    """The gateway that took the log may have fenced the member, so the client has to ask it. Only
    the cluster's own answers are still true."""
    if isinstance(request, ADMINISTRATIVE) or reply.reason == FORWARDED:
        return
    if isinstance(request, OffsetCommitReceived | OffsetFetchReceived) and (
        not reply.error or reply.reason == REFUSED
    ):
        return
    require(reply.error in RETRIABLE, Invariant.LEASE, who, "gets", reply, "for", request)


def _granted_partitions(reply: Reply, topics: Topics | None) -> Set[Partition] | None:
    """The partitions that the client may begin to consume; empty for a leader, which assigns them.
    None if the answer gives nothing."""
    if reply.error:
        return None
    match reply:
        case JoinGroupReply():
            return frozenset()
        case ConsumerHeartbeatReply(assignment=assignment):
            return assignment
        case SyncGroupReply(assignment=assignment):
            try:
                _version, decoded = decode_assignment(assignment)
            except WireError:
                return frozenset()
            assert topics is not None
            return topics.partitions(
                (partition.topic, partition.partitions) for partition in decoded.assigned_partitions
            )
        case _:
            return None
