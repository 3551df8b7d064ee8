"""Forwards group requests to the cluster, on the client's own connection."""

from dataclasses import replace
from typing import Any, cast

from gateway.data_path.group_apis import GroupRequest
from gateway.data_path.upstream import Upstream
from gateway.hosting.answers import GroupApi
from gateway.requests.messages import GroupMessage, api_of
from gateway.requests.refusals import refusal
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode

FIRST_VERSION_WITH_REGEX = 1
"""The first ConsumerGroupHeartbeat with a regular expression."""


def highest_version(upstream: Upstream, api_key: ApiKey) -> int:
    """The highest version of the api on the upstream broker, -1 if it does not have the api."""
    return upstream.versions[api_key][1] if api_key in upstream.versions else -1


async def forward(
    request: GroupRequest, message: Struct | None = None, *, since_version: int = 0
) -> Any:
    """The cluster's answer to `message`, by default the request's own, in the version chosen by
    `Upstream.version_for`.

    Raises BrokerLost. Whether the broker acted on the request is then unknown.
    """
    asked = request.message if message is None else message
    upstream, header = request.upstream, request.header
    version = upstream.version_for(header.api_key, header.api_version, since_version)
    return await upstream.ask(asked, version)


async def ask_cluster(request: GroupRequest, message: GroupMessage, why: str = "") -> Struct:
    """The cluster's answer about a group of its own. `why`: why the group is forwarded. Raises
    BrokerLost."""
    highest = highest_version(request.upstream, ApiKey(request.header.api_key))
    if highest < 0:
        # Only the apis of KIP-848 are offered without the cluster's support.
        return _no_new_protocol(message, request.header.api_version, why)
    match message:
        case ConsumerGroupHeartbeatRequest(subscribed_topic_regex=str(regex)) if highest < (
            FIRST_VERSION_WITH_REGEX
        ):
            if regex:
                reason = (
                    "the group is forwarded to the cluster, which does not know regular expressions"
                )
                version = request.header.api_version
                return refusal(message, version, ErrorCode.UNSUPPORTED_VERSION, reason)
            # An empty one takes a regular expression back. None can have been accepted there.
            message = replace(message, subscribed_topic_regex=None)
        case _:
            pass
    answer = cast(Struct, await forward(request, message))
    return shown_to_member(message, request.header.api_version, answer, why)


def shown_to_member(message: GroupMessage, version: int, answer: Struct, why: str = "") -> Struct:
    """The cluster's answer, in the words that a client expects whose group was hosted before."""
    match answer:
        # A broker may list the api although the protocol is switched off, as Kafka 3.9 does.
        case ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION):
            return _no_new_protocol(message, version, why)
        # DEV D49: a member that was hosted here gives up its partitions and rejoins.
        case ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND) if (
            api_of(message) is GroupApi.CONSUMER_HEARTBEAT
        ):
            return replace(answer, error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        case _:
            return answer


def _no_new_protocol(message: GroupMessage, version: int, why: str) -> Struct:
    api = api_of(message)
    what = "client-side assignors" if api is GroupApi.ASSIGNMENT else "the new protocol"
    reason = f"the group is forwarded to the cluster, which does not know {what}"
    if why:
        reason = f"{reason}: {why}"
    # DEV D49: as above. It is refused when it rejoins.
    is_member = api is GroupApi.CONSUMER_HEARTBEAT
    code = ErrorCode.UNKNOWN_MEMBER_ID if is_member else ErrorCode.GROUP_ID_NOT_FOUND
    return refusal(message, version, code, reason)
