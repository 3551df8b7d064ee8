"""Forwards group requests to the cluster, on the client's own connection."""

from dataclasses import replace
from typing import Any, cast

from gateway.data_path.group_apis import GroupRequest
from gateway.data_path.private_names import REASON as PRIVATE_REASON
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
    question = request.message if message is None else message
    upstream, header = request.upstream, request.header
    version = upstream.version_for(header.api_key, header.api_version, since_version)
    return await upstream.ask(question, version)


async def ask_cluster(request: GroupRequest, message: GroupMessage, reason: str = "") -> Struct:
    """The cluster's answer about a group of its own. `reason`: why the group is forwarded. Raises
    BrokerLost."""
    highest = highest_version(request.upstream, ApiKey(request.header.api_key))
    if highest < 0:
        # Only the apis of KIP-848 are offered without the cluster's support.
        return _no_new_protocol(message, request.header.api_version, reason)
    version = request.header.api_version
    match message:
        case ConsumerGroupHeartbeatRequest(subscribed_topic_names=tuple(names)) if any(
            map(request.private_names.has_topic, names)
        ):
            return refusal(message, version, ErrorCode.TOPIC_AUTHORIZATION_FAILED, PRIVATE_REASON)
        case ConsumerGroupHeartbeatRequest(subscribed_topic_regex=str(regex)) if highest < (
            FIRST_VERSION_WITH_REGEX
        ):
            if regex:
                text = (
                    "the group is forwarded to the cluster, which does not know regular expressions"
                )
                return refusal(message, version, ErrorCode.UNSUPPORTED_VERSION, text)
            # An empty one takes a regular expression back. None can have been accepted there.
            message = replace(message, subscribed_topic_regex=None)
        case _:
            pass
    answer = cast(Struct, await forward(request, message))
    if isinstance(answer, ConsumerGroupHeartbeatResponse):
        answer = _without_private(request, answer)
    return shown_to_member(message, version, answer, reason)


def _without_private(
    request: GroupRequest, answer: ConsumerGroupHeartbeatResponse
) -> ConsumerGroupHeartbeatResponse:
    """The answer without partitions of the gateway's topics, which a regular expression has matched
    in the cluster. Java's client ends its network thread over a topic that it may not describe."""
    if answer.assignment is None or not request.private_names:
        return answer
    is_private = request.private_names.has_topic_id
    assigned = answer.assignment.topic_partitions
    public = tuple(entry for entry in assigned if not is_private(entry.topic_id))
    return replace(answer, assignment=replace(answer.assignment, topic_partitions=public))


def shown_to_member(
    message: GroupMessage, version: int, answer: Struct, reason: str = ""
) -> Struct:
    """The cluster's answer, in the words that a client expects whose group was hosted before."""
    match answer:
        # A broker may list the api although the protocol is switched off, as Kafka 3.9 does.
        case ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION):
            return _no_new_protocol(message, version, reason)
        # DEV D49: a member that was hosted here gives up its partitions and rejoins.
        case ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND) if (
            api_of(message) is GroupApi.CONSUMER_HEARTBEAT
        ):
            return replace(answer, error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        case _:
            return answer


def _no_new_protocol(message: GroupMessage, version: int, reason: str) -> Struct:
    api = api_of(message)
    what = "client-side assignors" if api is GroupApi.ASSIGNMENT else "the new protocol"
    text = f"the group is forwarded to the cluster, which does not know {what}"
    if reason:
        text = f"{text}: {reason}"
    # DEV D49: as above. It is refused when it rejoins.
    is_member = api is GroupApi.CONSUMER_HEARTBEAT
    code = ErrorCode.UNKNOWN_MEMBER_ID if is_member else ErrorCode.GROUP_ID_NOT_FOUND
    return refusal(message, version, code, text)
