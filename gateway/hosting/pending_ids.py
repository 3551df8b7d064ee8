"""Member ids that the cluster has handed out to clients after a move, and that were not used yet.

All members of a group that has moved join without an id at the same time. Some clients send that
JoinGroup twice (librdkafka 5569), and use one of the two ids. The coordinator waits for the other
one until its session is over, and with it all members of the first round. So the second JoinGroup
on a connection gets the id that the first one got.
"""

from coordinator.interface.events import JoinGroupReceived
from coordinator.interface.replies import JoinGroupReply
from gateway.hosting.calls import Call
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse

REMEMBERED_MS = 60_000
"""How long after a move ids are remembered: the first round has ended by then."""
IDS_MAX = 2_000
"""Ids that are remembered. If there are more, the client of the first may delay the round."""


class PendingIds:
    """The latest unused id of each connection. Times are milliseconds."""

    def __init__(self) -> None:
        self._by_connection: dict[int, str] = {}
        self._until_ms: int | None = None

    def end_at(self, until_ms: int) -> None:
        """The move has ended: its first round is over at this time."""
        self._until_ms = until_ms

    def is_over(self, now_ms: int) -> bool:
        """Whether nothing is remembered any more."""
        return self._until_ms is not None and now_ms >= self._until_ms

    def record_relayed(self, connection: int | None, request: Struct, response: Struct) -> None:
        """The cluster has answered a request on this connection."""
        if connection is None or not isinstance(request, JoinGroupRequest):
            return
        match response:
            case JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id):
                self._by_connection[connection] = member_id
                if len(self._by_connection) > IDS_MAX:
                    del self._by_connection[next(iter(self._by_connection))]
            case _:
                self._by_connection.pop(connection, None)

    def answer_repeated(self, call: Call) -> JoinGroupReply | None:
        """The answer to a JoinGroup that asks for an id again; None if the cluster answers."""
        match call:
            case Call(event=JoinGroupReceived(member_id="", instance_id=None), connection=int(n)):
                member_id = self._by_connection.get(n)
            case _:
                return None
        if member_id is None:
            return None
        return JoinGroupReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
