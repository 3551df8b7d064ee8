"""OffsetCommit and TxnOffsetCommit: the engine checks them, the cluster stores them.

The gateway sends accepted commits on the client's own connection under the anchor's member id;
commits that arrived together are sent together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import cast

from coordinator.interface.events import OffsetCommitReceived
from coordinator.interface.replies import OffsetReply
from coordinator.interface.topics import Topics
from coordinator.interface.volatile_records import Token
from gateway.data_path.errors import BrokerLost, ConnectionAbandoned, UpstreamAway
from gateway.data_path.group_apis import GroupRequest
from gateway.groups.group_driver import GroupDriver
from gateway.groups.group_drivers import GroupFailed
from gateway.groups.groups import Groups
from gateway.hosting.answers import ANSWERS, GroupApi, RefusalReason, needs_lease
from gateway.hosting.calls import (
    AWAY,
    LOST,
    Abandoned,
    Answer,
    Commit,
    CommitCodes,
    Commits,
    Forwarded,
    Outcome,
    PendingAction,
    ProbeBroker,
    Refused,
    StoreCommits,
    Unanswerable,
)
from gateway.hosting.identity import (
    FIRST_COMMIT_VERSION,
    FIRST_TXN_COMMIT_VERSION,
    NO_IDS,
    AnchorIds,
)
from gateway.hosting.inputs import Done, Input
from gateway.observers.counts import AnswerCounts
from gateway.observers.offset_reporter import OffsetReporter
from gateway.requests.authorization import topic_codes
from gateway.requests.commit_parts import CommitRequest, CommitResponse, join_answers, split
from gateway.requests.coordinators import Coordinators
from gateway.requests.forwarding import ask_cluster, highest_version
from gateway.requests.messages import api_of
from gateway.requests.refusals import refusal, refuse
from gateway.requests.zookeeper_offsets import FIRST_VERSION_IN_KAFKA, refusal_code
from kafka_codecs import decode
from kafka_codecs.apis import ApiKey
from kafka_codecs.assembly import is_alike
from kafka_codecs.codec import encode_up_to, encoded_from
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import decode_response_header
from kafka_codecs.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest

# Every request asks for these, and Python 3.11 takes long to find an Enum's member.
_OFFSET_COMMIT, _COMMIT = ApiKey.OFFSET_COMMIT, GroupApi.COMMIT

_FIRST_OF_AN_INSTANCE = {
    _OFFSET_COMMIT: FIRST_COMMIT_VERSION,
    ApiKey.TXN_OFFSET_COMMIT: FIRST_TXN_COMMIT_VERSION,
}

BEGINNINGS_MAX = 1_024
"""Beginnings of commits that are remembered: all commits of a group have the same."""
ANSWERS_MAX, ANSWER_REMEMBERED_BYTES_MAX = 1_024, 256
"""The cluster's answers that are remembered decoded, and the longest of them: a member that commits
the same partitions gets the same answer each time."""

_WAITS = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
"""Codes after which the client commits again soon."""


@dataclass(slots=True)
class _Sending:
    """The commits of one client to one group, and the cluster's answers."""

    request: GroupRequest
    call: Commits
    messages: Mapping[Token, CommitRequest]
    stored: dict[Token, CommitResponse] = field(default_factory=dict)

    async def do(self, pending_action: PendingAction) -> Input:
        """Carry out `ProbeBroker` and `StoreCommits`."""
        match pending_action:
            case ProbeBroker():
                return Done(pending_action, await self.request.upstream.is_there())
            case StoreCommits(_call, commits, ids):
                return Done(pending_action, await self._send(commits, ids))
            case _:
                raise TypeError(f"{pending_action} is no action of a commit")

    async def _send(self, tokens: Sequence[Token], ids: AnchorIds | None) -> CommitCodes:
        messages = []
        for token in tokens:
            decision = cast(OffsetReply, self.call.commits[token].outcome.decision)
            message = self.messages[token]
            messages.append(split(message, decision.gone)[1] if decision.gone else message)
        try:
            answers = await _ask(self.request, messages, ids)
        except UpstreamAway:
            return dict.fromkeys(tokens, AWAY)
        return {
            token: self.take(token, answer) for token, answer in zip(tokens, answers, strict=True)
        }

    def take(self, token: Token, answer: CommitResponse | None) -> frozenset[int] | str:
        """Keep the cluster's answer to a commit, None if it was lost. Returns its codes."""
        if answer is None:
            return LOST
        self.stored[token] = answer
        return _codes_of(answer)


class CommitApis:
    """Commits of clients to hosted groups and others."""

    def __init__(
        self,
        groups: Groups,
        coordinators: Coordinators,
        offsets: OffsetReporter,
        answers: AnswerCounts,
    ) -> None:
        """`answers` counts the commits whose answer `CommitOnItsWay` lets pass, too."""
        self.answers = answers
        self._groups = groups
        self._coordinators = coordinators
        self.offsets = offsets
        """Sees the commits whose answer `CommitOnItsWay` lets pass."""

    def begin(
        self, request: GroupRequest, message: OffsetCommitRequest, body: bytes
    ) -> "CommitOnItsWay | None":
        """Have a commit accepted if its group is at rest, so that it can be sent immediately. None
        if it cannot; then nothing has changed, and it is to be answered by `answer`."""
        client_version = request.header.api_version
        version = request.upstream.version_for(_OFFSET_COMMIT, client_version, FIRST_COMMIT_VERSION)
        if not message.group_id or not _is_alike(version, client_version):
            return None
        if (driver := self._groups.drivers.in_memory(message.group_id)) is None:
            return None
        commit = _commit(message, client_version)
        call = self._call(request, message, {commit.token: commit})
        if (pending_action := driver.send_at_rest(call)) is None:
            return None
        beginning = _beginning(message.group_id, commit.ids, message.retention_time_ms, version)
        body = beginning + encoded_from(OffsetCommitRequest, version, body, "topics")
        return CommitOnItsWay(self, request, driver, pending_action, version=version, body=body)

    async def answer(self, requests: Sequence[GroupRequest]) -> Sequence[Struct | None]:
        """The answers to the commits of one client to one group, in order; None for a commit that
        the cluster may never have seen. Raises BrokerLost, ConnectionAbandoned, GroupFailed."""
        messages = [cast(CommitRequest, request.message) for request in requests]
        group_id = messages[0].group_id
        if not group_id:
            return [await self._without_group(request) for request in requests]
        first = requests[0]
        is_consumers = isinstance(first.message, OffsetCommitRequest)
        if is_consumers and first.header.api_version < FIRST_VERSION_IN_KAFKA:
            return [await self._to_zookeeper(request) for request in requests]
        sending = self._sending(requests)
        answer = await self._groups.router.answer_without_driver(group_id, sending.call)
        if answer is None:
            driver = self._groups.drivers.driver(group_id, requests[0].owner)
            answer = await driver.ask(sending.call, sending.do)
        if isinstance(answer, Forwarded):
            self._groups.router.record_relayed_commit(group_id, sending.call)
            with self._groups.drivers.relaying(group_id, sending.call):
                return [
                    await ask_cluster(request, message)
                    for request, message in zip(requests, messages, strict=True)
                ]
        return await self.responses(sending, answer)

    def _sending(self, requests: Sequence[GroupRequest]) -> _Sending:
        first = requests[0]
        commit_requests = [cast(CommitRequest, request.message) for request in requests]
        all_of_them = [_commit(message, first.header.api_version) for message in commit_requests]
        commits = {commit.token: commit for commit in all_of_them}
        messages = dict(zip(commits, commit_requests, strict=True))
        return _Sending(first, self._call(first, commit_requests[0], commits), messages)

    def _call(
        self, first: GroupRequest, message: CommitRequest, commits: dict[Token, Commit]
    ) -> Commits:
        # A member's transactions come on the connections of their producers.
        is_consumers = isinstance(message, OffsetCommitRequest)
        return Commits(
            api=_COMMIT if is_consumers else GroupApi.TXN_COMMIT,
            owner=first.owner,
            connection=first.upstream.number if is_consumers else None,
            newest_connection=first.upstream.newest_number,
            node_id=first.node_id,
            is_at_coordinator=self._coordinators.is_at_lately(message.group_id, first),
            commits=commits,
        )

    async def responses(self, sending: _Sending, answer: Answer) -> Sequence[Struct | None]:
        """The responses to the commits of a call that was answered here. Raises
        ConnectionAbandoned, GroupFailed."""
        version = sending.request.header.api_version
        match answer:
            case Refused(cause, reason):
                messages = sending.messages.values()
                return [refuse(message, version, cause, reason) for message in messages]
            case Unanswerable():
                raise GroupFailed
            case Abandoned():
                raise ConnectionAbandoned("its client or its group has moved on")
            case _:
                outcomes = cast(Mapping[Token, Outcome], answer)
                return [
                    await self._response(
                        sending.request, sending.messages[token], outcome, sending.stored.get(token)
                    )
                    for token, outcome in outcomes.items()
                ]

    async def _without_group(self, request: GroupRequest) -> Struct:
        """The empty group id has offsets but never members (rule 2.9)."""
        message = cast(CommitRequest, request.message)
        if ANSWERS[RefusalReason.EMPTY_GROUP_ID, api_of(message)] is None:
            return await ask_cluster(request, message)
        reason = "the group id is empty"
        return refuse(message, request.header.api_version, RefusalReason.EMPTY_GROUP_ID, reason)

    async def _to_zookeeper(self, request: GroupRequest) -> Struct:
        message, version = cast(OffsetCommitRequest, request.message), request.header.api_version
        code = await refusal_code(self._groups, message.group_id, request.owner, _COMMIT)
        return refusal(message, version, code, "") if code else await ask_cluster(request, message)

    async def _response(
        self,
        request: GroupRequest,
        message: CommitRequest,
        outcome: Outcome,
        stored: CommitResponse | None,
    ) -> Struct | None:
        """The answer to the whole commit. Deleted topics get UNKNOWN_TOPIC_OR_PARTITION."""
        version = request.header.api_version
        if outcome.refused is not None:
            cause, reason = outcome.refused.cause, outcome.refused.reason
            # A move may continue elsewhere, too.
            if not self._groups.drivers.may_answer_for(message.group_id):
                cause, reason = RefusalReason.LOG_NOT_OURS, ""
            return refuse(message, version, cause, reason)
        decision = cast(OffsetReply, outcome.decision)
        if needs_lease(api_of(message), decision.error) and not self._groups.drivers.may_answer_for(
            message.group_id
        ):
            return refuse(message, version, RefusalReason.LOG_NOT_OURS, "")
        if decision.error in _WAITS:
            return refusal(message, version, decision.error, decision.reason)
        if decision.error:
            return await _refused_for_good(request, message, decision)
        if outcome.is_away:
            return None
        if stored is not None and not decision.gone:
            return stored
        gone, _rest = split(message, decision.gone)
        unknown = refusal(gone, version, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return unknown if stored is None else join_answers(stored, unknown)


async def _refused_for_good(
    request: GroupRequest, message: CommitRequest, decision: OffsetReply
) -> Struct:
    """Refuse a commit, its unknown and denied topics with their own codes: a broker looks at the
    topics before it looks for the member."""
    version = request.header.api_version
    try:
        codes = await topic_codes(request, message)
    except BrokerLost:
        codes = {}
    wrong, rest = split(message, frozenset(codes))
    answer = refusal(rest, version, decision.error, decision.reason)
    for code in set(codes.values()):
        topics, _others = split(wrong, frozenset(name for name in codes if codes[name] == code))
        answer = join_answers(refusal(topics, version, code, ""), answer)
    return answer


class CommitOnItsWay:
    """A commit that was accepted at rest; see `gateway.data_path.group_apis.CommitUnderWay`."""

    __slots__ = ("_apis", "_driver", "_pending_action", "_request", "_response", "body", "version")

    def __init__(
        self,
        apis: CommitApis,
        request: GroupRequest,
        driver: GroupDriver,
        pending_action: StoreCommits,
        *,
        version: int,
        body: bytes,
    ) -> None:
        self.version, self.body = version, body
        self._apis = apis
        self._request = request
        self._driver = driver
        self._pending_action = pending_action
        self._response: OffsetCommitResponse | None = None

    def take_answer(self, answer: bytes | None, now_s: float) -> bool:
        """Whether the client gets the broker's answer. Raises WireError."""
        pending_action, apis = self._pending_action, self._apis
        (token,) = pending_action.commits
        codes: frozenset[int] | str = LOST
        try:
            if answer is not None:
                self._response, codes = _read_answer(answer, self.version)
        finally:
            self._driver.feed(Done(pending_action, {token: codes}))
        response, outcomes = self._response, pending_action.call.answer
        if response is None or not isinstance(outcomes, dict) or outcomes[token].refused:
            return False
        apis.offsets.record_commit(self._request, response)
        apis.answers.record(response)
        apis.answers.record_wait(OffsetCommitResponse, now_s - self._request.at_s)
        return True

    async def answer(self) -> Struct | None:
        """The client's answer otherwise; see `CommitApis.answer`."""
        call, (token,) = self._pending_action.call, self._pending_action.commits
        message = cast(OffsetCommitRequest, self._request.message)
        sending = _Sending(self._request, call, {token: message})
        if self._response is not None:
            sending.stored[token] = self._response
        answer = await self._driver.finish(call, sending.do)
        return (await self._apis.responses(sending, answer))[0]


def _is_alike(one: int, other: int) -> bool:
    """Whether the layouts of both versions are the same, as of those that clients and brokers
    most often speak."""
    return one == other or (
        is_alike(OffsetCommitRequest, one, other) and is_alike(OffsetCommitResponse, one, other)
    )


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
            (topic.name, partition.partition_index)
            for topic in message.topics
            for partition in topic.partitions
        ]
    )


def _event(
    message: CommitRequest, version: int, names: frozenset[str], token: Token, topics: Topics
) -> OffsetCommitReceived:
    if isinstance(message, OffsetCommitRequest):
        epoch, is_transactional = message.generation_id_or_member_epoch, False
    else:
        epoch, is_transactional = message.generation_id, True
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
        is_transactional=is_transactional,
    )


def _read_answer(answer: bytes, version: int) -> tuple[OffsetCommitResponse, frozenset[int]]:
    """The cluster's answer, and its codes. Raises WireError."""
    _id, body_at = decode_response_header(_OFFSET_COMMIT, version, answer)
    body = answer[body_at:]
    decoded = _decode_remembered if len(body) <= ANSWER_REMEMBERED_BYTES_MAX else _decode_answer
    return decoded(body, version)


def _decode_answer(body: bytes, version: int) -> tuple[OffsetCommitResponse, frozenset[int]]:
    response = decode(OffsetCommitResponse, body, version)
    return response, _codes_of(response)


_decode_remembered = lru_cache(ANSWERS_MAX)(_decode_answer)


def _codes_of(answer: CommitResponse) -> frozenset[int]:
    return frozenset(
        [partition.error_code for topic in answer.topics for partition in topic.partitions]
    )


@lru_cache(BEGINNINGS_MAX)
def _beginning(group_id: str, ids: AnchorIds | None, retention_time_ms: int, version: int) -> bytes:
    """What precedes the offsets of a commit under these ids."""
    message = OffsetCommitRequest(group_id=group_id, retention_time_ms=retention_time_ms, topics=())
    return encode_up_to(_with_member(message, ids), version, "topics")


async def _ask(
    request: GroupRequest, commits: Sequence[CommitRequest], ids: AnchorIds | None
) -> Sequence[CommitResponse | None]:
    """Send the commits under the anchor's ids, or without a member where no anchor can be used: in
    the embedded cluster, for a group without members, and for transactions before Kafka 2.5. Raises
    UpstreamAway."""
    knows_members = (
        request.header.api_key == _OFFSET_COMMIT
        # Kafka before 2.5 does not check the member of a transactional commit.
        or highest_version(request.upstream, ApiKey.TXN_OFFSET_COMMIT) >= FIRST_TXN_COMMIT_VERSION
    )
    since_version = 0
    if not knows_members:
        ids = None
    elif ids is not None:
        # DEV D93: these versions have no retention.
        since_version = _FIRST_OF_AN_INSTANCE[ApiKey(request.header.api_key)]
    messages = [_with_member(commit, ids) for commit in commits]
    upstream, header = request.upstream, request.header
    version = upstream.version_for(header.api_key, header.api_version, since_version)
    return await upstream.ask_in_order(messages, version)


def _with_member(message: CommitRequest, ids: AnchorIds | None) -> CommitRequest:
    instance_id = ids.instance_id or None if ids is not None else None
    ids = ids or NO_IDS
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
