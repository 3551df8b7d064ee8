"""Group requests that the cluster answers: the same question, on the client's own connection."""

from typing import Any

from gateway.data_path.group_apis import GroupRequest
from gateway.data_path.upstream import Upstream
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct


def highest_version(upstream: Upstream, api_key: ApiKey) -> int:
    """The highest version that the upstream broker speaks, -1 if it does not know the api."""
    return upstream.versions[api_key][1] if api_key in upstream.versions else -1


async def forward(
    request: GroupRequest, message: Struct | None = None, *, since_version: int = 0
) -> Any:
    """The cluster's answer to the request, or to `message` in its place.

    In the version that `version_for` says. Raises UpstreamLost: whether the broker did what it was
    asked is then unknown.
    """
    asked = request.message if message is None else message
    return await request.upstream.ask(asked, version_for(request, since_version))


def version_for(request: GroupRequest, since_version: int = 0) -> int:
    """The client's version, or the one next to it that the broker speaks and the message needs."""
    low, high = request.upstream.versions[ApiKey(request.header.api_key)]
    return max(low, min(high, max(request.header.api_version, since_version)))
