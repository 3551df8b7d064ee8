"""Converts requests to an older version for the upstream, and answers back to the client's version.

The answers still contain the upstream's addresses; the caller rewrites them.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from gateway.batches import batches
from gateway.cluster.topics import METADATA_BY_TOPIC_ID_SINCE, requested_ids
from gateway.data_path import metadata_versions
from gateway.data_path.upstream import Upstream
from kafka_codecs.apis import ApiKey
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafka_codecs.metadata import MetadataRequest, MetadataResponse

TopicNames = Callable[[Collection[UUID]], Awaitable[Mapping[UUID, str]]]
"""The names of the topics with these ids, as far as they exist. Raises UpstreamError."""

COORDINATOR_KEYS_MAX = 1_000
"""Keys of one FindCoordinator request that are looked up one by one. For the others the client gets
a retriable error."""

_LAST_WITH_ONE_KEY = 3


async def ask_for_metadata(
    request: MetadataRequest, upstream: Upstream, version: int, topic_names: TopicNames
) -> MetadataResponse:
    """The answer to a Metadata request in the client's version.

    Raises BrokerLost, UpstreamError.
    """
    highest = upstream.versions[ApiKey.METADATA][1]
    if version <= highest or highest >= METADATA_BY_TOPIC_ID_SINCE:
        answer: MetadataResponse = await upstream.ask(request, min(version, highest))
        return answer
    topic_ids = requested_ids(request)
    if topic_ids and version < METADATA_BY_TOPIC_ID_SINCE:
        return metadata_versions.refuse_ids(request)
    names = await topic_names(topic_ids) if topic_ids else {}
    below = metadata_versions.lower_request(request, names, highest)
    return metadata_versions.raise_answer(await upstream.ask(below, highest), request, names)


async def ask_for_coordinators(
    request: FindCoordinatorRequest, upstream: Upstream, version: int
) -> FindCoordinatorResponse:
    """The answer to a FindCoordinator request in the client's version.

    Raises BrokerLost.
    """
    answer: FindCoordinatorResponse
    highest = upstream.versions[ApiKey.FIND_COORDINATOR][1]
    if version <= _LAST_WITH_ONE_KEY:
        answer = await upstream.ask(request, min(version, highest))
        return answer
    if version > highest:
        return await _one_by_one(request, upstream)
    first, *others = list(batches(request.coordinator_keys)) or [()]
    answer = await upstream.ask(replace(request, coordinator_keys=first), version)
    coordinators = list(answer.coordinators)
    for batch in others:
        more = await upstream.ask(replace(request, coordinator_keys=batch), version)
        coordinators += more.coordinators
    return replace(answer, coordinators=tuple(coordinators))


async def _one_by_one(
    request: FindCoordinatorRequest, upstream: Upstream
) -> FindCoordinatorResponse:
    """Ask for one key at a time: batches came with v4 (KIP-699)."""
    keys = tuple(dict.fromkeys(request.coordinator_keys))
    if request.key_type not in {CoordinatorType.GROUP, CoordinatorType.TRANSACTION}:
        # Share groups came with v6, which this upstream does not support.
        return without_coordinator(keys, ErrorCode.INVALID_REQUEST)
    version = min(upstream.versions[ApiKey.FIND_COORDINATOR][1], _LAST_WITH_ONE_KEY)
    requests = [
        FindCoordinatorRequest(key=key, key_type=request.key_type)
        for key in keys[:COORDINATOR_KEYS_MAX]
    ]
    answers: Sequence[FindCoordinatorResponse] = await upstream.ask_all(requests, version)
    coordinators = tuple(
        Coordinator(
            key=key,
            node_id=answer.node_id,
            host=answer.host,
            port=answer.port,
            error_code=answer.error_code,
            error_message=answer.error_message,
        )
        for key, answer in zip(keys, answers, strict=False)
    )
    rest = without_coordinator(keys[COORDINATOR_KEYS_MAX:], ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return replace(rest, coordinators=(*coordinators, *rest.coordinators))


def without_coordinator(keys: Iterable[str], code: ErrorCode) -> FindCoordinatorResponse:
    """The answer to a batch that names no coordinator, with an error for each key."""
    return FindCoordinatorResponse(
        coordinators=tuple(
            Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code) for key in keys
        )
    )
