"""Asks the cluster which of the topics that match a regular expression a member may describe."""

from collections.abc import Collection

import trio

from coordinator.interface.errors import GroupError
from gateway.cluster.errors import UpstreamError
from gateway.data_path.errors import BrokerLost
from gateway.data_path.grants import Resource
from gateway.data_path.group_apis import GroupRequest
from gateway.groups.regex_permissions import RegexPermissions
from gateway.groups.regex_resolver import RegexResolver
from gateway.requests.authorization import refused_names
from gateway.requests.messages import MemberMessage
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

PATIENCE_S = 3.0
"""How long a heartbeat waits for the cluster's answer and the matches."""


class RegexQuestions:
    """Heartbeats of members ask what the resolution of their group's expressions needs to know."""

    def __init__(self, permissions: RegexPermissions, resolver: RegexResolver) -> None:
        self._permissions = permissions
        self._resolver = resolver

    def has_one(self, message: ConsumerGroupHeartbeatRequest) -> bool:
        """Whether this heartbeat should ask first."""
        return bool(message.subscribed_topic_regex) or message.group_id in self._permissions.waiting

    async def ask(self, request: GroupRequest, message: MemberMessage) -> None:
        """Ask what there is to ask, on the client's connection. Without an answer the resolution
        waits for a further heartbeat, and this one is answered."""
        if not isinstance(message, ConsumerGroupHeartbeatRequest) or not self.has_one(message):
            return
        group_id, regex = message.group_id, message.subscribed_topic_regex
        names = self._permissions.list_topics_to_ask(group_id)
        with trio.move_on_after(PATIENCE_S):
            try:
                if regex:
                    names |= self._permissions.unknown(group_id, await self._matching(regex))
                if names:
                    refused = await refused_names(request, Resource.TOPIC, names)
                    self._permissions.record(group_id, names, refused)
                    # So that this heartbeat brings the partitions of new topics, as in Kafka.
                    await self._resolver.until_resolved(group_id)
            except (BrokerLost, UpstreamError):
                pass

    async def _matching(self, regex: str) -> Collection[str]:
        try:
            return await self._resolver.topics_of({regex})
        except GroupError:  # the engine will refuse it
            return ()
