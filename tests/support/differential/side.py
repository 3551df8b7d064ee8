"""One of the two servers of a script: its group, its ids, its connections."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from gateway.cluster.broker_connection import BrokerConnection
from gateway.cluster.errors import UpstreamError
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_codecs.consumer_protocol import decode_assignment
from kafka_codecs.declaration import Struct
from kafka_codecs.errors import WireError
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.list_groups import ListGroupsResponse
from kafka_codecs.sync_group import SyncGroupResponse
from tests.support.differential.plain import Names, Plain, shape
from tests.support.until import until_answered

Address = tuple[str, int]
Held = dict[str, tuple[int, ...]]
"""Partitions by topic."""

LOADING = 14
NO_ANSWER = "no answer: the connection ended"


@dataclass(slots=True, kw_only=True)
class Side:
    """The meaning of a script's names on this side, and each member's last answer."""

    name: str
    address: Address
    group: str
    topics: dict[str, UUID]
    ids: dict[str, str] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    _idle: dict[str, list[BrokerConnection]] = field(default_factory=dict)
    _open: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def close(self) -> None:
        await self._open.aclose()

    def id_of(self, who: str) -> str:
        """The member's id. An unknown name stands for itself."""
        return self.ids.get(who, who)

    def topic_id(self, name: str) -> UUID:
        """The topic's id, or an unused one if no topic has this name."""
        return self.topics.get(name, UUID(int=0xBAD))

    async def ask(self, who: str, message: Struct, version: int | None) -> Struct | str:
        """The answer to a request on the member's own connection, or the reason why there is none.
        A parked request keeps its connection, and the next one uses another."""

        def is_loaded(answer: Struct) -> bool:  # other groups of this broker, not the script's
            return not (isinstance(answer, ListGroupsResponse) and answer.error_code == LOADING)

        connections = self._idle.setdefault(who, [])
        if connections:
            connection = connections.pop()
        else:
            connection = await BrokerConnection.open(*self.address, client_id=who)
            self._open.push_async_exit(connection)
        try:
            answer: Struct = await until_answered(
                lambda: connection.ask(message, version), is_loaded
            )
        except UpstreamError:
            return NO_ANSWER
        connections.append(connection)
        return answer

    def learn(self, who: str, answer: Struct | str) -> None:
        """Record the member's data in an answer."""
        match answer:
            case JoinGroupResponse() if answer.member_id:
                known = self.ids.values()
                is_given = shape(answer.member_id) != answer.member_id
                is_own_choice = answer.member_id == who and not answer.error_code
                if answer.member_id not in known and (is_given or is_own_choice):
                    self.ids[who] = answer.member_id
                if not answer.error_code:
                    self.epochs[who] = answer.generation_id
            case SyncGroupResponse(error_code=0):
                self.held[who] = _read(answer.assignment)
            case ConsumerGroupHeartbeatResponse(error_code=0):
                if who not in self.ids and answer.member_id:
                    self.ids[who] = answer.member_id
                self.epochs[who] = answer.member_epoch
                if answer.assignment is not None:
                    names = {topic_id: name for name, topic_id in self.topics.items()}
                    self.held[who] = {
                        names[partition.topic_id]: partition.partitions
                        for partition in answer.assignment.topic_partitions
                        if partition.topic_id in names
                    }
            case _:
                pass

    def plain(self, answer: Struct | str) -> Plain:
        """An answer in the script's names."""
        members: Mapping[str, str] = {member_id: who for who, member_id in self.ids.items()}
        topics = {topic_id: name for name, topic_id in self.topics.items()}
        if isinstance(answer, str):
            return {"error_code": answer}
        if isinstance(answer, ListGroupsResponse):
            ours = tuple(group for group in answer.groups if group.group_id == self.group)
            answer = replace(answer, groups=ours)
        plain: dict[str, Any] = Names(group=self.group, members=members, topics=topics).plain(
            answer
        )
        if isinstance(answer, JoinGroupResponse | ConsumerGroupHeartbeatResponse):
            plain["shape_of_id"] = answer.member_id and shape(answer.member_id)
        return plain


def _read(assignment: bytes) -> Held:
    try:
        _version, decoded = decode_assignment(assignment)
    except WireError:
        return {}
    return {partition.topic: partition.partitions for partition in decoded.assigned_partitions}
