"""What the data path asks of the code that knows groups.

The data path decodes a group request, waits for the answer and encodes it; what the answer is, and
whether the cluster is asked for it, is decided behind `GroupApis`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.data_path.upstream import Upstream
from kafka_codecs.declaration import Struct
from kafka_codecs.header import RequestHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    """One group request of a client, and the way to the broker that it was meant for."""

    header: RequestHeader
    message: Struct
    client_host: str
    upstream: Upstream
    """Asks on the client's own upstream connection; only until the request is answered."""
    node_id: int
    """The broker that the listener stands for."""


class GroupApis(Protocol):
    """Answers JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat, the describes
    and lists of groups, DeleteGroups, the commits and fetches of their offsets, and all that is
    about configs, because groups have some; and FindCoordinator, with the upstream's addresses,
    in whose place ours are put then."""

    async def answer(self, request: GroupRequest) -> Struct:
        """The response to `request`, which is then encoded in the request's version.

        The connection's next request is not read before this returns. Cancelled when the client's
        connection ends. UpstreamLost and WireError may be raised: they close the connection.
        """
        ...

    async def answer_commits(self, requests: Sequence[GroupRequest]) -> Sequence[Struct]:
        """The responses to OffsetCommits that were there together, otherwise as `answer`."""
        return [await self.answer(request) for request in requests]

    def last_word(self, request: GroupRequest, response: Struct) -> Struct:  # noqa: ARG002
        """What is to leave instead of `response`, or itself: asked just before it does, for it may
        have waited long enough not to be true any more."""
        return response
