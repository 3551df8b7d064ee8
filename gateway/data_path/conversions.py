"""Converts requests to an older version for the upstream, and answers back to the client's version.

The answers still contain the upstream's addresses; the caller rewrites them.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from uuid import UUID

from gateway.data_path import metadata_versions
from gateway.data_path.errors import BadFrame
from gateway.data_path.upstream import Upstream
from kafka_codecs.apis import ApiKey
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
"""Keys of one FindCoordinator request that may be asked one by one."""

_INVALID_REQUEST = 42
_LAST_WITH_ONE_KEY = 3


async def ask_for_metadata(
    request: MetadataRequest, upstream: Upstream, version: int, topic_names: TopicNames
) -> MetadataResponse:
    """The answer to a Metadata request in the client's version.

    Raises UpstreamLost, UpstreamError.
    """
    highest = upstream.versions[ApiKey.METADATA][1]
    if version <= highest:
        answer: MetadataResponse = await upstream.ask(request, version)
        return answer
    by_id = metadata_versions.ids_asked_for(request)
    names = await topic_names(by_id) if by_id else {}
    below = metadata_versions.lowered(request, names, highest)
    return metadata_versions.raised(await upstream.ask(below, highest), request, names)


async def ask_for_coordinators(
    request: FindCoordinatorRequest, upstream: Upstream, version: int
) -> FindCoordinatorResponse:
    """The answer to a FindCoordinator request in the client's version.

    Raises UpstreamLost, or BadFrame for a request with too many keys.
    """
    if version <= upstream.versions[ApiKey.FIND_COORDINATOR][1]:
        answer: FindCoordinatorResponse = await upstream.ask(request, version)
        return answer
    return await _one_by_one(request, upstream)


async def _one_by_one(
    request: FindCoordinatorRequest, upstream: Upstream
) -> FindCoordinatorResponse:
    """Ask for one key at a time: batches came with v4 (KIP-699)."""
    keys = tuple(dict.fromkeys(request.coordinator_keys))
    if len(keys) > COORDINATOR_KEYS_MAX:
        raise BadFrame(f"a FindCoordinator request with {len(keys)} keys")
    version = min(upstream.versions[ApiKey.FIND_COORDINATOR][1], _LAST_WITH_ONE_KEY)
    found = [await _coordinator(key, request.key_type, upstream, version) for key in keys]
    return FindCoordinatorResponse(coordinators=tuple(found))


async def _coordinator(key: str, key_type: int, upstream: Upstream, version: int) -> Coordinator:
    if key_type not in {CoordinatorType.GROUP, CoordinatorType.TRANSACTION}:
        # Share groups came with v6, which this upstream does not support.
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=_INVALID_REQUEST)
    asked = FindCoordinatorRequest(key=key, key_type=key_type)
    answer: FindCoordinatorResponse = await upstream.ask(asked, version)
    return Coordinator(
        key=key,
        node_id=answer.node_id,
        host=answer.host,
        port=answer.port,
        error_code=answer.error_code,
        error_message=answer.error_message,
    )
