"""OffsetFetch: the engines check each group of a request, the cluster answers for those that pass.

Requests here always name a list of groups; `offset_fetch_shapes` converts the older shape.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import trio

from coordinator.interface.events import OffsetFetchReceived
from coordinator.interface.topics import Topics
from gateway.batches import batches
from gateway.cluster.embedded import is_embedded
from gateway.data_path.grants import Resource
from gateway.data_path.group_apis import GroupRequest
from gateway.data_path.upstream import Upstream
from gateway.events.offset_events import NO_MEMBER
from gateway.groups.group_drivers import GroupRefused
from gateway.groups.groups import Groups
from gateway.hosting.answers import ANSWERS, GroupApi, RefusalReason, code_for, needs_lease
from gateway.hosting.group_routing import RoutingDecision
from gateway.hosting.states import Mode
from gateway.observers.offset_reporter import OffsetReporter
from gateway.quotas.quota_key import QuotaKey
from gateway.requests.authorization import refused_names
from gateway.requests.forwarding import forward, highest_version
from gateway.requests.member_apis import member_of
from gateway.requests.offset_fetch_shapes import (
    FIRST_VERSION_WITH_BATCHES,
    FIRST_VERSION_WITH_GROUP_ERROR,
    answer_about,
    fail_group,
    groups_of,
    request_about,
    response_of,
    with_partition_errors,
)
from gateway.requests.zookeeper_offsets import FIRST_VERSION_IN_KAFKA, refusal_code
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import MetadataRequest, MetadataResponse
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

FIRST_VERSION_WITH_REQUIRE_STABLE = 7
EMBEDDED_METADATA_VERSION = 1

GROUPS_ONE_BY_ONE_MAX = 1_000
"""Groups of one request that are looked up one by one at a broker without batches. For the others
the client gets a retriable error."""

RequestedGroups = tuple[OffsetFetchRequestGroup, ...]


class OffsetFetchApi:
    """Answers OffsetFetch for hosted and forwarded groups alike."""

    def __init__(self, groups: Groups, reporter: OffsetReporter) -> None:
        self._groups = groups
        self._offset_reporter = reporter

    async def fetch(
        self, request: GroupRequest, message: OffsetFetchRequest
    ) -> OffsetFetchResponse:
        """Check each group, then fetch those that pass. Raises BrokerLost."""
        version = request.header.api_version
        if version < FIRST_VERSION_IN_KAFKA:
            return await self._from_zookeeper(request, message)
        groups, contradictory = _distinct(groups_of(message, version))
        fetchable = groups if _takes_batches(request) else groups[:GROUPS_ONE_BY_ONE_MAX]
        answers: list[OffsetFetchResponseGroup] = []
        for batch in batches(fetchable):
            answers += await self._fetch_some(request, message, batch, contradictory)
        code = code_for(RefusalReason.HOLDER_UNKNOWN, GroupApi.FETCH)
        answers += [fail_group(group, code, version) for group in groups[len(fetchable) :]]
        return response_of(tuple(answers), version)

    async def _from_zookeeper(
        self, request: GroupRequest, message: OffsetFetchRequest
    ) -> OffsetFetchResponse:
        code = await refusal_code(self._groups, message.group_id, request.owner, GroupApi.FETCH)
        if code is None:
            answer: OffsetFetchResponse = await forward(request)
            return answer
        version = request.header.api_version
        (group,) = groups_of(message, version)
        return response_of((fail_group(group, code, version),), version)

    async def _fetch_some(
        self,
        request: GroupRequest,
        message: OffsetFetchRequest,
        groups: Sequence[OffsetFetchRequestGroup],
        contradictory: frozenset[str],
    ) -> list[OffsetFetchResponseGroup]:
        version = request.header.api_version
        named = filter(None, (group.group_id for group in groups))
        decisions = await self._groups.router.find_decisions(named, request.owner)
        hosted = [
            group_id for group_id, decision in decisions.items() if decision.mode is Mode.HOSTED
        ]
        refused = await refused_names(request, Resource.GROUP, hosted)
        vetted: list[OffsetFetchRequestGroup | ErrorCode] = []
        for group in groups:
            await trio.lowlevel.checkpoint()  # the request may name thousands of groups
            if group.group_id in refused:
                vetted.append(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            elif group.group_id in contradictory:
                vetted.append(ErrorCode.INVALID_REQUEST)
            else:
                decision = decisions.get(group.group_id)
                vetted.append(await self._vet(group, decision, request.owner))
        passed = tuple(group for group in vetted if isinstance(group, OffsetFetchRequestGroup))
        fetched = await _fetch(request, passed, require_stable=message.require_stable)
        answers = {answer.group_id: answer for answer in fetched}
        for group in groups:
            if group.group_id in answers:
                if group.topics is None and request.private_names:
                    answers[group.group_id] = without_private(request, answers[group.group_id])
                self._record(request, group, answers[group.group_id])
        return [
            fail_group(group, decision, version)
            if isinstance(decision, ErrorCode)
            else with_partition_errors(group, answers[group.group_id], version)
            for group, decision in zip(groups, vetted, strict=True)
        ]

    def _record(
        self,
        request: GroupRequest,
        group: OffsetFetchRequestGroup,
        answer: OffsetFetchResponseGroup,
    ) -> None:
        """Report the fetch as a member's start, if the group has members."""
        if self._groups.drivers.is_live(group.group_id):
            member_id = group.member_id or member_of(request, group.group_id)
            self._offset_reporter.record_fetch(
                group.group_id, member_id or NO_MEMBER, answer.topics, request.owner
            )

    async def _vet(
        self, group: OffsetFetchRequestGroup, decision: RoutingDecision | None, owner: QuotaKey
    ) -> OffsetFetchRequestGroup | ErrorCode:
        """The group to ask the cluster about, or the error."""
        if decision is None:  # the empty group id is the cluster's alone (rule 2.9)
            return group
        if decision.mode is Mode.HOSTED:
            return await self._vetted_here(group, owner)
        if decision.cause is None:
            return group
        code = ANSWERS[decision.cause, GroupApi.FETCH]
        return group if code is None else code

    async def _vetted_here(
        self, group: OffsetFetchRequestGroup, owner: QuotaKey
    ) -> OffsetFetchRequestGroup | ErrorCode:
        """The group to ask the cluster about, or the error, if the group is hosted."""
        topics = group.topics

        def event(token: int, image: Topics) -> OffsetFetchReceived:
            return OffsetFetchReceived(
                token=token,
                member_id=group.member_id,
                epoch=group.member_epoch,
                partitions=(
                    None
                    if topics is None
                    else image.partitions((topic.name, topic.partition_indexes) for topic in topics)
                ),
            )

        reply = await self._groups.router.decide_from_log(group.group_id, event)
        if reply is None:
            names = [topic.name for topic in topics or ()]
            try:
                reply = await self._groups.drivers.ask(
                    group.group_id, event, names, api=GroupApi.FETCH, owner=owner
                )
            except GroupRefused as error:
                return code_for(error.cause, GroupApi.FETCH)
        if needs_lease(GroupApi.FETCH, reply.error) and not self._groups.drivers.may_answer_for(
            group.group_id
        ):
            return code_for(RefusalReason.LOG_NOT_OURS, GroupApi.FETCH)
        if reply.error:
            return reply.error
        return replace(group, member_id=None, member_epoch=-1)


def _distinct(groups: RequestedGroups) -> tuple[RequestedGroups, frozenset[str]]:
    """Each group once, and the ids of groups named more than once with different contents."""
    distinct = dict.fromkeys(groups)
    one_each = {group.group_id: group for group in distinct}
    counts = Counter(group.group_id for group in distinct)
    return tuple(one_each.values()), frozenset(group_id for group_id, n in counts.items() if n > 1)


def _takes_batches(request: GroupRequest) -> bool:
    return highest_version(request.upstream, ApiKey.OFFSET_FETCH) >= FIRST_VERSION_WITH_BATCHES


async def _fetch(
    request: GroupRequest, groups: RequestedGroups, *, require_stable: bool
) -> tuple[OffsetFetchResponseGroup, ...]:
    """Ask the cluster in one batch, or group by group before v8."""
    if not groups:
        return ()
    version = highest_version(request.upstream, ApiKey.OFFSET_FETCH)
    if _takes_batches(request):
        sent_version = min(version, max(request.header.api_version, FIRST_VERSION_WITH_BATCHES))
        batch: OffsetFetchResponse = await request.upstream.ask(
            OffsetFetchRequest(groups=groups, require_stable=require_stable), sent_version
        )
        return batch.groups
    sent_version = min(version, max(request.header.api_version, FIRST_VERSION_WITH_GROUP_ERROR))
    # Clients that speak to such a broker themselves drop the flag, too. Exactly-once consumers that
    # rely on it need a version of TxnOffsetCommit that the cluster lacks as well.
    stable = require_stable and version >= FIRST_VERSION_WITH_REQUIRE_STABLE
    ask = _ask_embedded if is_embedded(request.upstream.versions) else _ask_one_by_one
    return await ask(request, groups, sent_version, stable)


async def fetch_from_cluster(
    request: GroupRequest, message: OffsetFetchRequest
) -> OffsetFetchResponse:
    """What the cluster answers about groups whose owner is not asked. Raises BrokerLost."""
    version = request.header.api_version
    groups, _ = _distinct(groups_of(message, version))
    fetchable = groups if _takes_batches(request) else groups[:GROUPS_ONE_BY_ONE_MAX]
    fetched = await _fetch(request, fetchable, require_stable=message.require_stable)
    answers = {answer.group_id: answer for answer in fetched}
    code = code_for(RefusalReason.HOLDER_UNKNOWN, GroupApi.FETCH)
    return response_of(
        tuple(
            with_partition_errors(group, answers[group.group_id], version)
            if group.group_id in answers
            else fail_group(group, code, version)
            for group in groups
        ),
        version,
    )


def without_private(
    request: GroupRequest, answer: OffsetFetchResponseGroup
) -> OffsetFetchResponseGroup:
    """A list of all offsets as Kafka gives it to a client that may not describe some topics. A
    consumer that reads the gateway's events directly from the cluster has committed there."""
    is_private = request.private_names.has_topic
    return replace(answer, topics=tuple(t for t in answer.topics if not is_private(t.name)))


async def _ask_one_by_one(
    request: GroupRequest, groups: RequestedGroups, version: int, require_stable: bool
) -> tuple[OffsetFetchResponseGroup, ...]:
    requests = [request_about(group, require_stable=require_stable) for group in groups]
    answers: Sequence[OffsetFetchResponse] = await request.upstream.ask_all(requests, version)
    return tuple(
        answer_about(group.group_id, answer) for group, answer in zip(groups, answers, strict=True)
    )


async def _ask_embedded(
    request: GroupRequest, groups: RequestedGroups, version: int, require_stable: bool
) -> tuple[OffsetFetchResponseGroup, ...]:
    """The mock cluster cannot list committed offsets, so ask about every partition."""
    unnamed = {group.group_id for group in groups if group.topics is None}
    every = await _every_partition(request.upstream) if unnamed else ()
    named = tuple(
        replace(group, topics=every) if group.group_id in unnamed else group for group in groups
    )
    answers = await _ask_one_by_one(request, named, version, require_stable)
    return tuple(
        _drop_uncommitted(answer) if answer.group_id in unnamed else answer for answer in answers
    )


def _drop_uncommitted(answer: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
    committed = [
        replace(topic, partitions=tuple(p for p in topic.partitions if p.committed_offset >= 0))
        for topic in answer.topics
    ]
    return replace(answer, topics=tuple(topic for topic in committed if topic.partitions))


async def _every_partition(upstream: Upstream) -> tuple[OffsetFetchRequestTopic, ...]:
    """All partitions of the embedded cluster, which cannot answer for "all topics" (null)."""
    question = MetadataRequest(topics=None)
    answer: MetadataResponse = await upstream.ask(question, EMBEDDED_METADATA_VERSION)
    return tuple(
        OffsetFetchRequestTopic(
            name=topic.name or "",
            partition_indexes=tuple(partition.partition_index for partition in topic.partitions),
        )
        for topic in answer.topics
    )
