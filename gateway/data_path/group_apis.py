"""The interface between the data path and the code that handles groups.

The data path decodes a group request, waits for the answer and encodes it. `GroupApis` decides the
answer, and whether to ask the cluster.
"""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.data_path.grants import Grants
from gateway.data_path.private_names import NOTHING_PRIVATE, PrivateNames
from gateway.data_path.upstream import Upstream
from gateway.quotas.quota_key import QuotaKey
from kafka_codecs.declaration import Struct
from kafka_codecs.end_txn import EndTxnRequest
from kafka_codecs.header import RequestHeader


def _hold_uncounted(_count_bytes: int) -> None:
    """Count nothing: the request has no connection."""


@dataclass(slots=True, kw_only=True)  # frozen, it would take three times as long to make
class GroupRequest:
    """A client's group request, with access to the broker that it was sent to."""

    header: RequestHeader
    message: Struct
    client_host: str
    owner: QuotaKey
    """Who the groups count towards that the request begins."""
    upstream: Upstream
    """The client's own upstream connection; valid until the request is answered."""
    node_id: int
    """The broker that the listener represents."""
    grants: Grants
    """What the cluster has lately allowed the client."""
    at_s: float
    """When it was read."""
    names_unwritable: bool = False
    """Whether it names something in a text that cannot be written."""
    private_names: PrivateNames = NOTHING_PRIVATE
    """The topics that no client may describe."""
    follows_answers: bool = True
    """False if the request began to arrive before the latest assignment had been sent on this
    connection, or the latest answer to a heartbeat that had waited long."""
    lacks_answer: bool = False
    """Whether a heartbeat on this connection was answered with an error of the gateway itself, and
    none with an assignment since: the client may not know what its group has decided."""
    is_refused: bool = False
    """Whether the answer is an error of the gateway, in place of one of a group that it hosts. Set
    with the answer."""
    calls_within_ms: int = 0
    """How long the latest calls on this connection took at most."""
    tls_subject: str | None = None
    """The subject of the client's verified certificate, if it showed one."""
    hold: Callable[[int], None] = _hold_uncounted
    """Counts so many bytes of a long answer towards its owner until the client has it. Raises
    TooMuchHeld."""

    @property
    def user(self) -> str | None:
        """The user whose credentials the cluster has accepted. The subject of a certificate is not
        one, because the cluster never sees the certificate."""
        is_user = self.owner.is_principal and self.owner.name != self.tls_subject
        return self.owner.name if is_user else None


class LazyAnswer(Awaitable[Struct]):
    """An answer that begins when it is awaited, and needs no end if its client goes before."""

    __slots__ = ("_ask",)

    def __init__(self, ask: Callable[[], Awaitable[Struct]]) -> None:
        self._ask = ask

    def __await__(self) -> Generator[Any, None, Struct]:
        return self._ask().__await__()


class AnswerUnderWay(Awaitable[Struct]):
    """An answer that the group gives later. To await it takes a task."""

    @abstractmethod
    def watch(self, changed: Callable[[], None]) -> bool:
        """Have `changed` called once, when there is an answer, or something that takes a task.
        False if that is so already."""

    @abstractmethod
    def take(self) -> Struct | None:
        """The answer after `changed`, once; None if a task has to await it. Raises as
        `GroupApis.answer`."""

    @abstractmethod
    def abandon(self) -> None:
        """The client no longer waits for the answer."""


class CommitUnderWay(Protocol):
    """A commit that its group has accepted immediately, and that the cluster now has to store."""

    body: bytes
    """The request for the broker, in `version`."""
    version: int

    def take_answer(self, answer: bytes | None, now_s: float) -> bool:
        """Take the broker's answer, with its header; None if it was lost. Whether the client gets
        the answer as it is. Raises WireError if it is malformed."""
        ...


class GroupApis(Protocol):
    """Answers all group apis: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat,
    the describe and list apis, DeleteGroups, and the commits and fetches of offsets. Also the
    config apis, because groups have configs, and FindCoordinator, whose addresses the data path
    then rewrites."""

    def answer(self, request: GroupRequest) -> Struct | Awaitable[Struct]:
        """The response to `request`, or what to await for it; the data path encodes it in the
        request's version.

        The connection's next request waits for it. Cancelled when the client's connection ends. May
        raise BrokerLost or BadAnswer, which close the connection.
        """
        ...

    def record_recalled(self, answer: Struct) -> None:  # noqa: ARG002
        """A client gets this answer, which another one had a moment ago."""
        return

    def begin_commit(
        self,
        request: GroupRequest,  # noqa: ARG002
        body: bytes,  # noqa: ARG002
    ) -> CommitUnderWay | None:
        """Have an OffsetCommit accepted, so that it can be sent to the broker immediately. `body`
        is its encoding. None if that takes time; then nothing has changed."""
        return None

    async def end_commit(self, request: GroupRequest, commit: CommitUnderWay) -> Struct:
        """The response to a commit whose answer the client does not get as it is. That may take a
        repair of the anchor. May raise as `answer` does."""
        raise ValueError(f"{request.message} has no {commit} under way")

    def record_transaction_end(self, request: EndTxnRequest) -> None:  # noqa: ARG002
        """The cluster has ended a transaction, which may have offsets of groups in it."""
        return

    async def answer_commits(self, requests: Sequence[GroupRequest]) -> Sequence[Struct]:
        """The responses to OffsetCommits that arrived together; see `answer`."""
        responses = [self.answer(request) for request in requests]
        return [
            response if isinstance(response, Struct) else await response for response in responses
        ]

    def last_word(self, request: GroupRequest, response: Struct) -> Struct:  # noqa: ARG002
        """Called just before `response` is sent, which may have waited until it was no longer true.
        Returns the response to send."""
        return response
