"""Calls of clients to their groups: makes them, and does what the group wants done for them on the
client's own connection. A group that is not hosted gets its answers from the cluster."""

from collections.abc import Awaitable, Callable
from typing import cast

import structlog

from coordinator.group.topic_names import topics_of_request
from gateway.cluster.embedded import is_embedded
from gateway.cluster.errors import UpstreamError
from gateway.data_path.group_apis import GroupRequest
from gateway.groups.groups import Groups, checked
from gateway.hosting.answers import Situation
from gateway.hosting.calls import Answer, Call, Errand, Forwarded, Learn, Locate, Refused
from gateway.hosting.inputs import Input, Located
from gateway.hosting.standing import STREAMS_PROTOCOL
from gateway.requests import messages
from gateway.requests.coordinators import Coordinators
from gateway.requests.forwarding import forward, highest_version
from gateway.requests.messages import MemberMessage
from gateway.requests.refusals import GroupMessage, api_of, refusal, refused
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse

log = structlog.get_logger()

DoMore = Callable[[Errand], Awaitable[Input]]
"""Does the errands of commits."""


class GroupCalls:
    """Asks groups on behalf of clients."""

    def __init__(self, groups: Groups, coordinators: Coordinators) -> None:
        self._groups = groups
        self._coordinators = coordinators

    async def answer(self, request: GroupRequest, message: MemberMessage) -> Struct:
        """The answer to a request of a member, or of a client that wants to be one. Raises
        UpstreamLost, GroupFailed."""
        version = request.header.api_version
        if not message.group_id:
            return refused(message, version, Situation.EMPTY_GROUP_ID, "the group id is empty")
        call = self.call_for(request, message)
        call.event = messages.event(call.token, request.header, message, request.client_host)
        names = topics_of_request(call.event)
        answer = await self.ask(request, message.group_id, call, names)
        match answer:
            case Refused(situation, why):
                return refused(message, version, situation, why)
            case Forwarded():
                told = await ask_cluster(request, message)
                if call.is_foreign:
                    self._note_foreign(message, told)
                return told
            case _:
                return messages.response(checked(answer), version)

    def call_for(self, request: GroupRequest, message: GroupMessage) -> Call:
        """A call for this message, still without what it asks of the engine."""
        return Call(
            api=api_of(message),
            client_host=request.client_host,
            is_foreign=isinstance(message, JoinGroupRequest) and is_foreign(message),
            is_at_coordinator=self.is_at_coordinator(request, message.group_id),
        )

    async def ask(
        self,
        request: GroupRequest,
        group_id: str,
        call: Call,
        names: frozenset[str],
        do_more: DoMore | None = None,
    ) -> Answer:
        """Ask the group. `names` are the topics that the call refers to."""

        async def do(errand: Errand) -> Input:
            match errand:
                case Locate():
                    return Located(call, await self._locate(request, group_id))
                case Learn():
                    return await self._groups.learn(group_id, call, names)
                case _:
                    assert do_more is not None
                    return await do_more(errand)

        call.knows_topics = self._groups.knows_topics(group_id, names)
        return await self._groups.call(group_id, call, do)

    def is_at_coordinator(self, request: GroupRequest, group_id: str) -> bool | None:
        """Whether the client is connected to the group's coordinator; None if it must be looked
        up."""
        if is_embedded(request.upstream.versions):
            return True
        return self._coordinators.is_at_lately(group_id, request.node_id)

    async def _locate(self, request: GroupRequest, group_id: str) -> bool | None:
        try:
            return await self._coordinators.node_of(group_id) == request.node_id
        except UpstreamError as error:
            log.warning("coordinator_unknown", group_id=group_id, reason=str(error))
            return None

    def _note_foreign(self, message: MemberMessage, told: Struct) -> None:
        match message, told:
            case JoinGroupRequest(), JoinGroupResponse(error_code=0):
                why = f"it uses the protocol {message.protocol_type}/{told.protocol_name}"
                self._groups.note_foreign(message.group_id, why)
            case _:
                pass


def is_foreign(message: JoinGroupRequest) -> bool:
    """Whether the join uses another embedded protocol: Connect, Schema Registry, Streams.

    A join without a protocol type goes to the engine, which refuses it.
    """
    if message.protocol_type == CONSUMER_PROTOCOL_TYPE:
        return any(protocol.name == STREAMS_PROTOCOL for protocol in message.protocols)
    return bool(message.protocol_type)


async def ask_cluster(request: GroupRequest, message: GroupMessage) -> Struct:
    """The cluster's answer about a group of its own. Raises UpstreamLost."""
    version = request.header.api_version
    why = "the group is forwarded to the cluster, which does not know the new protocol"
    if highest_version(request.upstream, ApiKey(request.header.api_key)) < 0:
        # ConsumerGroupHeartbeat is the only group api offered without the cluster's support.
        return refusal(message, version, ErrorCode.GROUP_ID_NOT_FOUND, why)
    answer = cast(Struct, await forward(request, message))
    match answer:
        # A broker may list the api although the protocol is switched off, as Kafka 3.9 does.
        case ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION):
            return refusal(message, version, ErrorCode.GROUP_ID_NOT_FOUND, why)
        case _:
            return answer
