"""Forwards group requests to the cluster, on the client's own connection."""

from typing import Any

from gateway.data_path.group_apis import GroupRequest
from gateway.data_path.upstream import Upstream
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct


def highest_version(upstream: Upstream, api_key: ApiKey) -> int:
    """The highest version of the api on the upstream broker, -1 if it does not have the api."""
    return upstream.versions[api_key][1] if api_key in upstream.versions else -1


async def forward(
    request: GroupRequest, message: Struct | None = None, *, since_version: int = 0
) -> Any:
    """The cluster's answer to `message`, by default the request's own, in the version chosen by
    `version_for`.

    Raises UpstreamLost. Whether the broker acted on the request is then unknown.
    """
    asked = request.message if message is None else message
    return await request.upstream.ask(asked, version_for(request, since_version))


def version_for(request: GroupRequest, since_version: int = 0) -> int:
    """The client's version, moved into the broker's range and to `since_version` if possible."""
    low, high = request.upstream.versions[ApiKey(request.header.api_key)]
    return max(low, min(high, max(request.header.api_version, since_version)))
