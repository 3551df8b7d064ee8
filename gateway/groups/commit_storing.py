"""Sends accepted commits to the cluster.

The gateway sends them on the client's own connection under the anchor's member id; commits that
arrived together are sent together. If the cluster rejects the anchor, the anchor is repaired and
the commits are sent again; the client never sees that error.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import trio

from coordinator.interface.events import OffsetCommitEnded
from coordinator.interface.volatile_records import Token
from gateway.anchor.anchors import MEMBER_PATIENCE_S, Anchors
from gateway.anchor.errors import ABOUT_THE_ANCHOR, AnchorDisplaced, NotAnchored
from gateway.anchor.identity import (
    FIRST_COMMIT_VERSION,
    FIRST_TXN_COMMIT_VERSION,
    INSTANCE_ID,
    AnchorIds,
)
from gateway.data_path.errors import UpstreamAway
from gateway.data_path.group_apis import GroupRequest
from gateway.groups.commit_parts import CommitRequest, CommitResponse
from gateway.groups.forwarding import highest_version, version_for
from gateway.groups.refusals import refusal
from gateway.groups.registry import Registry
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.offset_commit import OffsetCommitRequest
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest

_FIRST_OF_AN_INSTANCE = {
    ApiKey.OFFSET_COMMIT: FIRST_COMMIT_VERSION,
    ApiKey.TXN_OFFSET_COMMIT: FIRST_TXN_COMMIT_VERSION,
}


@dataclass(frozen=True, slots=True)
class Accepted:
    """A commit, and the token under which its group counts it as in flight."""

    message: CommitRequest
    token: Token


async def store(
    request: GroupRequest,
    commits: Sequence[Accepted],
    *,
    registry: Registry,
    anchors: Anchors,
) -> dict[Token, Struct | None]:
    """Send the commits of one client to one group. Returns the cluster's answers, None for a commit
    that the cluster may never have seen. In every case the group learns that the commit has ended,
    because an open commit holds back its partitions. `request` is the first of the commits."""
    storing = _Storing(request, commits, registry, anchors)
    try:
        await storing.run()
    finally:
        storing.end_all()
    return storing.answers


class _Storing:
    """The open commits, and the answers to the others."""

    def __init__(
        self,
        request: GroupRequest,
        commits: Sequence[Accepted],
        registry: Registry,
        anchors: Anchors,
    ) -> None:
        self.answers: dict[Token, Struct | None] = {}
        self._request = request
        self._group_id = commits[0].message.group_id
        self._open = list(commits)
        self._registry = registry
        self._anchors = anchors
        self._ids: AnchorIds | None = None
        self._are_on_their_way = False

    async def run(self) -> None:
        """Send until each commit has an answer or the member's patience ends."""
        give_up_s = trio.current_time() + MEMBER_PATIENCE_S
        why = ""
        try:
            while self._open and (patience_s := give_up_s - trio.current_time()) > 0:
                if await self._needs_anchor():
                    self._ids = await _anchor_ids(
                        self._request, self._group_id, self._anchors, patience_s
                    )
                self._are_on_their_way = True
                answers = await _send(self._request, self._open, self._ids)
                self._are_on_their_way = False
                why = self._take(answers)
        except NotAnchored as error:
            why = str(error)
        except UpstreamAway:
            self._are_on_their_way = False
            for commit in tuple(self._open):
                self._end(commit, None)
        for commit in tuple(self._open):
            self._refuse(commit, why)

    def end_all(self) -> None:
        """End what is still open, after a cancellation or a bug."""
        for commit in tuple(self._open):
            self._end(commit, None, is_lost=self._are_on_their_way)

    async def _needs_anchor(self) -> bool:
        """Whether the cluster accepts commits to the group from the anchor only."""
        are_a_members = any(commit.message.member_id for commit in self._open)
        return (
            are_a_members
            or self._registry.is_live(self._group_id)
            or await self._anchors.is_there(self._group_id)
        )

    def _take(self, answers: Sequence[CommitResponse | None]) -> str:
        """Keep open the commits that the cluster refused to the anchor, and return why. A commit is
        not sent again once a later one has been answered: its offset would go back."""
        is_settled_behind, why = False, ""
        for commit, answer in reversed(list(zip(self._open, answers, strict=True))):
            displaced = self._displaced(answer)
            if displaced is None:
                self._end(commit, answer, is_lost=answer is None)
                is_settled_behind = True
                continue
            why = str(displaced)
            if is_settled_behind:
                self._refuse(commit, why)
        return why

    def _displaced(self, answer: CommitResponse | None) -> AnchorDisplaced | None:
        """The anchor's error in an answer, if any. The anchor's repair begins here."""
        if answer is None:
            return None
        codes = {p.error_code for topic in answer.topics for p in topic.partitions}
        if ErrorCode.NOT_COORDINATOR in codes:
            self._anchors.look_around(self._group_id)
        displaced = codes & ABOUT_THE_ANCHOR
        if self._ids is None or not displaced:
            return None
        error = AnchorDisplaced("a commit", ErrorCode(min(displaced)))
        self._anchors.doubt(self._group_id, self._ids, error)
        return error

    def _refuse(self, commit: Accepted, why: str) -> None:
        code, version = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, self._request.header.api_version
        self._end(commit, refusal(commit.message, version, code, why))

    def _end(self, commit: Accepted, answer: Struct | None, *, is_lost: bool = False) -> None:
        self._open.remove(commit)
        self.answers[commit.token] = answer
        if is_lost:
            self._anchors.commit_lost(self._group_id, self._ids, commit.token)
        else:
            self._registry.end_commit(self._group_id, OffsetCommitEnded(commit=commit.token))


async def _anchor_ids(
    request: GroupRequest, group_id: str, anchors: Anchors, patience_s: float
) -> AnchorIds | None:
    """The ids to commit under. Checks the connection first, so that no commit waits for an anchor
    that it cannot use. Raises UpstreamAway, NotAnchored."""
    if not await request.upstream.is_there():
        raise UpstreamAway
    return await anchors.hold(group_id, client_host=request.client_host, patience_s=patience_s)


async def _send(
    request: GroupRequest, commits: Sequence[Accepted], ids: AnchorIds | None
) -> Sequence[CommitResponse | None]:
    """Send the commits under the anchor's ids, or without a member where no anchor can be used: in
    the embedded cluster, for a group without members, and for transactions before Kafka 2.5."""
    knows_members = (
        request.header.api_key == ApiKey.OFFSET_COMMIT
        # Kafka before 2.5 does not check the member of a transactional commit.
        or highest_version(request.upstream, ApiKey.TXN_OFFSET_COMMIT) >= FIRST_TXN_COMMIT_VERSION
    )
    if ids is None or not knows_members:
        messages = [_with_member(commit.message, "", -1, None) for commit in commits]
        return await request.upstream.ask_in_order(messages, version_for(request))
    messages = [
        _with_member(commit.message, ids.member_id, ids.generation, INSTANCE_ID)
        for commit in commits
    ]
    return await request.upstream.ask_in_order(
        messages, version_for(request, _FIRST_OF_AN_INSTANCE[ApiKey(request.header.api_key)])
    )


def _with_member(
    message: CommitRequest, member_id: str, generation: int, instance_id: str | None
) -> CommitRequest:
    match message:
        case OffsetCommitRequest():
            return replace(
                message,
                generation_id_or_member_epoch=generation,
                member_id=member_id,
                group_instance_id=instance_id,
            )
        case TxnOffsetCommitRequest():
            return replace(
                message,
                generation_id=generation,
                member_id=member_id,
                group_instance_id=instance_id,
            )
