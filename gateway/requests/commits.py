"""OffsetCommit and TxnOffsetCommit: the engine checks them, the cluster stores them.

The gateway sends accepted commits on the client's own connection under the anchor's member id;
commits that arrived together are sent together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

from coordinator.interface.events import OffsetCommitReceived
from coordinator.interface.replies import OffsetVerdict
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import Token
from gateway.data_path.errors import UpstreamAway
from gateway.data_path.group_apis import GroupRequest
from gateway.groups.groups import GroupFailed, Groups
from gateway.hosting.answers import ANSWERS, Situation, needs_lease
from gateway.hosting.calls import (
    Commit,
    Commits,
    Errand,
    Failed,
    Forwarded,
    Outcome,
    Probe,
    Refused,
    Store,
)
from gateway.hosting.identity import (
    FIRST_COMMIT_VERSION,
    FIRST_TXN_COMMIT_VERSION,
    NO_IDS,
    AnchorIds,
)
from gateway.hosting.inputs import AWAY, LOST, Input, Probed, Stored
from gateway.requests.commit_parts import CommitRequest, CommitResponse, joined, split
from gateway.requests.coordinators import Coordinators
from gateway.requests.forwarding import ask_cluster, highest_version, version_for
from gateway.requests.refusals import api_of, refusal, refused
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.offset_commit import OffsetCommitRequest
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest

_FIRST_OF_AN_INSTANCE = {
    ApiKey.OFFSET_COMMIT: FIRST_COMMIT_VERSION,
    ApiKey.TXN_OFFSET_COMMIT: FIRST_TXN_COMMIT_VERSION,
}


@dataclass(slots=True)
class _Sending:
    """The commits of one client to one group, and the cluster's answers."""

    request: GroupRequest
    call: Commits
    messages: Mapping[Token, CommitRequest]
    stored: dict[Token, CommitResponse] = field(default_factory=dict)

    async def do(self, errand: Errand) -> Input:
        """Carry out `Probe` and `Store`."""
        match errand:
            case Probe():
                return Probed(self.call, await self.request.upstream.is_there())
            case Store(commits, ids):
                return Stored(self.call, await self._send(commits, ids))
            case _:
                raise TypeError(f"{errand} is no errand of a commit")

    async def _send(
        self, tokens: Sequence[Token], ids: AnchorIds | None
    ) -> Mapping[Token, frozenset[int] | str]:
        asked = []
        for token in tokens:
            verdict = cast(OffsetVerdict, self.call.commits[token].outcome.verdict)
            message = self.messages[token]
            asked.append(split(message, verdict.gone)[1] if verdict.gone else message)
        try:
            answers = await _ask(self.request, asked, ids)
        except UpstreamAway:
            return dict.fromkeys(tokens, AWAY)
        codes: dict[Token, frozenset[int] | str] = dict.fromkeys(tokens, LOST)
        for token, answer in zip(tokens, answers, strict=True):
            if answer is not None:
                self.stored[token] = answer
                codes[token] = frozenset(
                    partition.error_code
                    for topic in answer.topics
                    for partition in topic.partitions
                )
        return codes


class CommitApis:
    """Commits of clients to hosted groups and others."""

    def __init__(self, groups: Groups, coordinators: Coordinators) -> None:
        self._groups = groups
        self._coordinators = coordinators

    async def answer(self, requests: Sequence[GroupRequest]) -> Sequence[Struct | None]:
        """The answers to the commits of one client to one group, in order; None for a commit that
        the cluster may never have seen. Raises UpstreamLost, GroupFailed."""
        first = requests[0]
        version = first.header.api_version
        asked = [cast(CommitRequest, request.message) for request in requests]
        group_id = asked[0].group_id
        if not group_id:
            return [await self._without_group(request) for request in requests]
        commits: dict[Token, Commit] = {}
        messages: dict[Token, CommitRequest] = {}
        for message in asked:
            commit = _commit(message, version)
            commits[commit.token], messages[commit.token] = commit, message
        call = Commits(
            api=api_of(asked[0]),
            owner=first.owner,
            node_id=first.node_id,
            is_at_coordinator=self._coordinators.is_at_lately(group_id, first),
            commits=commits,
        )
        sending = _Sending(first, call, messages)
        driver = self._groups.driver(group_id)
        answer = await driver.ask(call, sending.do)
        match answer:
            case Refused(situation, why):
                return [refused(message, version, situation, why) for message in asked]
            case Forwarded():
                with driver.relaying(call):
                    return [
                        await ask_cluster(request, message)
                        for request, message in zip(requests, asked, strict=True)
                    ]
            case Failed():
                raise GroupFailed
            case _:
                outcomes = cast(Mapping[Token, Outcome], answer)
                return [
                    self._response(messages[token], version, outcome, sending.stored.get(token))
                    for token, outcome in outcomes.items()
                ]

    async def _without_group(self, request: GroupRequest) -> Struct:
        """The empty group id has offsets but never members (rule 2.9)."""
        message = cast(CommitRequest, request.message)
        if ANSWERS[Situation.EMPTY_GROUP_ID, api_of(message)] is None:
            return await ask_cluster(request, message)
        why = "the group id is empty"
        return refused(message, request.header.api_version, Situation.EMPTY_GROUP_ID, why)

    def _response(
        self, message: CommitRequest, version: int, outcome: Outcome, stored: CommitResponse | None
    ) -> Struct | None:
        """The answer to the whole commit. Deleted topics get UNKNOWN_TOPIC_OR_PARTITION."""
        if outcome.refused is not None:
            return refused(message, version, outcome.refused.situation, outcome.refused.why)
        verdict = cast(OffsetVerdict, outcome.verdict)
        if not self._groups.may_answer and needs_lease(api_of(message), verdict.error):
            return refused(message, version, Situation.LOG_NOT_OURS, "")
        if verdict.error:
            return refusal(message, version, verdict.error, verdict.why)
        if outcome.is_away:
            return None
        if stored is not None and not verdict.gone:
            return stored
        gone, _rest = split(message, verdict.gone)
        unknown = refusal(gone, version, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return unknown if stored is None else joined(stored, unknown)


def _commit(message: CommitRequest, version: int) -> Commit:
    names = frozenset([topic.name for topic in message.topics])
    return Commit(
        make=partial(_event, message, version, names),
        topic_names=names,
        has_member=bool(message.member_id),
        order_keys=_order_keys(message),
    )


def _order_keys(message: CommitRequest) -> frozenset[object]:
    if message.member_id:
        return frozenset((message.member_id,))
    return frozenset(
        [
            (topic.name, each.partition_index)
            for topic in message.topics
            for each in topic.partitions
        ]
    )


def _event(
    message: CommitRequest, version: int, names: frozenset[str], token: Token, topics: Topics
) -> OffsetCommitReceived:
    match message:
        case OffsetCommitRequest(generation_id_or_member_epoch=epoch):
            pass
        case TxnOffsetCommitRequest(generation_id=epoch):
            pass
    return OffsetCommitReceived(
        token=token,
        version=version,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        epoch=epoch,
        topic_names=names,
        partitions=topics.partitions(
            [
                (topic.name, [p.partition_index for p in topic.partitions])
                for topic in message.topics
            ]
        ),
        is_transactional=isinstance(message, TxnOffsetCommitRequest),
    )


async def _ask(
    request: GroupRequest, commits: Sequence[CommitRequest], ids: AnchorIds | None
) -> Sequence[CommitResponse | None]:
    """Send the commits under the anchor's ids, or without a member where no anchor can be used: in
    the embedded cluster, for a group without members, and for transactions before Kafka 2.5. Raises
    UpstreamAway."""
    knows_members = (
        request.header.api_key == ApiKey.OFFSET_COMMIT
        # Kafka before 2.5 does not check the member of a transactional commit.
        or highest_version(request.upstream, ApiKey.TXN_OFFSET_COMMIT) >= FIRST_TXN_COMMIT_VERSION
    )
    instance_id, since_version = None, 0
    if ids is None or not knows_members:
        ids = NO_IDS
    else:
        instance_id = ids.instance_id or None
        since_version = _FIRST_OF_AN_INSTANCE[ApiKey(request.header.api_key)]
    messages = [_with_member(commit, ids, instance_id) for commit in commits]
    return await request.upstream.ask_in_order(messages, version_for(request, since_version))


def _with_member(message: CommitRequest, ids: AnchorIds, instance_id: str | None) -> CommitRequest:
    match message:
        case OffsetCommitRequest():
            return replace(
                message,
                generation_id_or_member_epoch=ids.generation,
                member_id=ids.member_id,
                group_instance_id=instance_id,
            )
        case TxnOffsetCommitRequest():
            return replace(
                message,
                generation_id=ids.generation,
                member_id=ids.member_id,
                group_instance_id=instance_id,
            )
