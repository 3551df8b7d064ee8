"""Answers the group requests of one client, immediately where its group can."""

import contextlib
import contextvars
import struct
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from coordinator.interface.events import JOIN_EPOCH
from gateway.data_path.api_table import LAST_WORDS
from gateway.data_path.authentication import Authentication
from gateway.data_path.call_times import CallTimes
from gateway.data_path.client_frames import (
    ASIDE_FROM_BYTES,
    REQUEST_START,
    SHORTEST_REQUEST,
    ClientFrames,
    framed_answer,
)
from gateway.data_path.connection_context import ConnectionContext
from gateway.data_path.connection_limiter import ConnectionSlot
from gateway.data_path.entities import NAMING_APIS
from gateway.data_path.entries import bytes_of
from gateway.data_path.errors import BrokerLost
from gateway.data_path.found_coordinators import CoordinatorLookup, question_of
from gateway.data_path.grants import Grants
from gateway.data_path.group_apis import AnswerUnderWay, CommitUnderWay, GroupRequest
from gateway.data_path.offer import NO_VERSIONS
from gateway.data_path.private_names import NOTHING_MASKED
from gateway.data_path.relayed_requests import RelayedRequests
from gateway.data_path.upstream_connection import SIZE
from gateway.transport.tls import TlsSocket
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_codecs.header import RequestHeader, decode_request_header
from kafka_codecs.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_codecs.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafka_codecs.unwritable import UNWRITABLE_FROM_BYTES, has_unwritable_text

# Every request asks for these, and Python 3.11 takes long to find an Enum's member.
_JOIN_GROUP, _OFFSET_COMMIT = ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT
_FIND_COORDINATOR = ApiKey.FIND_COORDINATOR

SLOW_FROM_S = 0.1
"""A shorter call holds up no heartbeat: a tenth of the shortest interval that can be set."""

COMMITS_TOGETHER_MAX = 32
"""Commits of one client that may wait for the broker together."""

VERSION_IN_REQUEST = 6
_INT16 = struct.Struct(">h")
_HEARTBEATS_WITH_EPOCHS = (
    ConsumerGroupHeartbeatRequest,
    ShareGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequest,
)

_ANSWERED_AT_ONCE = frozenset(
    {
        *(ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP),
        *(ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT),
    }
)
Begun = Callable[[], Awaitable[None]]
"""Finishes an answer that takes time."""


class GroupRequests:
    """Answers one group request after another."""

    __slots__ = (
        "_authentication",
        "_begun",
        "_calls",
        "_changed",
        "_client_host",
        "_context",
        "_frames",
        "_grants",
        "_heard_from",
        "_hold",
        "_lacks_answer",
        "_on_end",
        "_relayed",
        "_remembered",
        "_shared",
        "_slot",
        "_tls_subject",
        "_under_way",
        "lingers",
    )

    def __init__(
        self,
        frames: ClientFrames,
        context: ConnectionContext,
        authentication: Authentication | None,
        relayed: RelayedRequests,
        *,
        client_host: str,
        slot: ConnectionSlot,
        log_context: contextvars.Context,
        on_end: Callable[[], None],
    ) -> None:
        """`on_end` is called when a request that is under way without a task has its answer."""
        self._frames = frames
        self._shared = context
        self._remembered = context.found_coordinators if authentication is None else None
        self._authentication = authentication
        self._relayed = relayed
        self._client_host = client_host
        self._slot = slot
        self._tls_subject = frames.sock.subject if isinstance(frames.sock, TlsSocket) else None
        self._grants = (
            context.anonymous_grants
            if authentication is None
            else Grants(context.limits, total=context.grants_total)
        )
        self._hold = frames.count_held
        self._context = log_context
        self._calls: CallTimes | None = None  # unless one was slow
        self._heard_from = 0
        """How much had arrived when the last answer was sent that a member may not expect."""
        self._lacks_answer = False
        self._begun: Begun | None = None
        self._on_end = on_end
        self._changed: trio.Event | None = None  # of `_begun`, while a task waits for that
        self._under_way: AnswerUnderWay | None = None  # unless it has been awaited
        self.lingers = False
        """Whether what has begun counts although its client goes."""

    def close(self) -> None:
        """Forget the connection, which need not wait for the garbage collector then."""
        self._on_end = _do_nothing
        self.abandon()
        if self._authentication is not None:
            self._grants.close()

    def abandon(self) -> None:
        """Forget what has begun: the client no longer waits for the answer."""
        self._begun = self._changed = None
        if self._under_way is not None:
            self._under_way.abandon()
            self._under_way = None

    def has_begun(self) -> bool:
        """Whether an answer has begun that `finish_begun` has to finish."""
        return self._begun is not None

    async def finish_begun(self) -> None:
        """Finish what `answer_at_once` has begun, if anything."""
        while self._begun is not None:
            begun, self._begun = self._begun, None
            await begun()
        self._changed = None

    def answer_at_once(self, size: int, api_key: int, version: int) -> bool:
        """Answer the next request if its group can immediately. False if not: it may have begun.

        Only the last request that is here: a client that sends many must not hold up others.
        """
        frames = self._frames
        source, upstream = frames.source, frames.upstream
        low, high = upstream.offer.offered.get(api_key, NO_VERSIONS)
        if api_key not in _ANSWERED_AT_ONCE or not low <= version <= high:
            return api_key == _FIND_COORDINATOR and self._find_at_once(size, version)
        if not source.is_alone(size) or size >= ASIDE_FROM_BYTES:
            return False
        if not upstream.is_idle:
            return False
        if self._authentication is not None and not self._authentication.check_answered():
            return False
        position = source.received - SIZE.size - size  # nothing follows it yet
        frame = source.take_out(size)
        header, body_at = decode_request_header(frame)
        upstream.client_id = header.client_id
        body = frame[body_at:]
        at_s = self._shared.resources.poller.turn_s
        request = self._request(header, frames.read(api_key, version, body), at_s, position, size)
        if api_key == _OFFSET_COMMIT:
            return self._send_commit(request, frame[:body_at], body)
        response = self._context.run(self._shared.group_apis.answer, request)
        if isinstance(response, Struct):
            self._begun = self._send(request, response)
            return self._begun is None
        self.lingers = is_last_word(request.message)
        if isinstance(response, AnswerUnderWay):
            return self._wait(request, response)
        self._begun = partial(self._finish, request, response)
        return False

    def _find_at_once(self, size: int, version: int) -> bool:
        """Answer a FindCoordinator with what another client was told, or once it is told that.
        False if not: the answer may have begun."""
        frames, remembered = self._frames, self._remembered
        source, upstream = frames.source, frames.upstream
        low, high = upstream.offer.offered.get(_FIND_COORDINATOR, NO_VERSIONS)
        if remembered is None or not low <= version <= high or not upstream.is_idle:
            return False
        if not source.is_alone(size) or size >= ASIDE_FROM_BYTES:
            return False
        frame = bytes(source.head()[SIZE.size :])
        header, body_at = decode_request_header(frame)
        message = frames.read(_FIND_COORDINATOR, version, frame[body_at:])
        assert isinstance(message, FindCoordinatorRequest)
        question = question_of(message, version)
        if question is None or self._shared.private_names.may_be_in(frame):
            return False
        position = source.received - SIZE.size - size
        source.take_out(size)
        upstream.client_id = header.client_id
        at_s = self._shared.resources.poller.turn_s
        request = self._request(header, message, at_s, position, size)
        answer = remembered.recall(question, at_s, upstream.is_in_doubt)
        if answer is not None:
            self._begun = self._send(request, answer)
            return self._begun is None
        ask = partial(self._find_coordinator, request)
        self.lingers = False
        return self._wait(request, CoordinatorLookup(remembered, question, request, ask))

    async def _find_coordinator(self, request: GroupRequest) -> Struct:
        """The answer of the cluster, with our addresses."""
        response = self._shared.group_apis.answer(request)
        if not isinstance(response, Struct):
            response = await response
        return await self._shared.rewrite(response)

    def _wait(self, request: GroupRequest, pending: AnswerUnderWay) -> bool:
        """Wait for an answer without a task: thousands of joins may wait at once, for minutes.
        False if it takes one."""
        self._under_way = pending
        if not pending.watch(partial(self._go_on, request, pending)):
            self._begun = partial(self._finish_under_way, request, pending)
            return False
        self._begun = self._until_end
        return True

    async def _finish_under_way(self, request: GroupRequest, pending: AnswerUnderWay) -> None:
        """Await the answer, which ends with this task from now on. A client that goes before the
        task has begun leaves the answer to `abandon`."""
        self._under_way = None
        await self._finish(request, pending)

    def _go_on(self, request: GroupRequest, pending: AnswerUnderWay) -> None:
        """Send the answer if it is there, or let a task wait for it."""
        self._under_way = None
        rest: Begun | None
        try:
            response = self._context.run(pending.take)
            if response is None:
                self._under_way = pending
                rest = partial(self._finish_under_way, request, pending)
            else:
                self._record_time(request, trio.current_time())
                rest = self._send(request, response)
        except Exception as error:  # raised in the task, because the group has called
            rest = partial(_fail, error)
        self._record_end(rest)

    def _send(self, request: GroupRequest, response: Struct) -> Begun | None:
        """Send an answer. Returns what a task has to do for the rest."""
        header = request.header
        if header.api_key == _JOIN_GROUP and _is_long(response):  # it may list the members
            return partial(self._reply, request, response)
        last_word = self._shared.group_apis.last_word(request, response)
        answer = framed_answer(header, header.api_version, last_word)
        frames, heartbeat, arrived = self._frames, None, 0
        if isinstance(last_word, ConsumerGroupHeartbeatResponse) and (
            last_word.assignment is not None or self._calls is not None or last_word.error_code
        ):
            # Now: a client that is near may have the answer, and have sent its next request, before
            # `send` returns.
            heartbeat, arrived = last_word, frames.source.count_arrived_bytes()
        try:
            sent = frames.sock.send(answer)
        except BlockingIOError:
            sent = 0
        if sent == len(answer):
            if heartbeat is not None:
                self._record_heartbeat_sent(request, heartbeat, arrived)
            return None
        self.lingers = False  # what counts has happened
        frames.is_sending = sent > 0
        return partial(self._send_all, request, answer[sent:], last_word)

    async def _send_all(self, request: GroupRequest, rest: bytes, response: Struct) -> None:
        arrived = self._frames.source.count_arrived_bytes()
        await self._frames.put(rest)
        if isinstance(response, ConsumerGroupHeartbeatResponse):
            self._record_heartbeat_sent(request, response, arrived)

    def _record_heartbeat_sent(
        self, request: GroupRequest, response: ConsumerGroupHeartbeatResponse, arrived: int
    ) -> None:
        """Note what the client had sent before it could have this answer, if the answer has an
        assignment or the client may have given it up. After an error in place of an answer, the
        client sends everything without knowing the answer."""
        self._heard_from = arrived
        if request.is_refused:
            self._lacks_answer = True
        elif response.assignment is not None:
            self._lacks_answer = False

    async def answer(self, key: ApiKey, size: int) -> None:
        """Answer the next request."""
        position = self._frames.source.position
        header, body = await self._frames.hold_body(size, key)
        private, masks = self._shared.private_names, NOTHING_MASKED
        message = await self._frames.decode(header, body)
        if key in NAMING_APIS and private.may_be_in(body):
            message, masks = private.mask(message)
        request = self._request(header, message, trio.current_time(), position, size)
        if not is_last_word(message):
            self._frames.lifetime.stop_lingering()
        if key is ApiKey.OFFSET_COMMIT:
            await self._answer_commits(request)
            return
        response = self._shared.group_apis.answer(request)
        if not isinstance(response, Struct):
            response = await response
        if isinstance(response, FindCoordinatorResponse):
            response = await self._shared.rewrite(response)
        await self._reply(request, await self._relayed.for_client(key, response, masks))

    def _request(
        self, header: RequestHeader, message: Struct, at_s: float, position: int, size: int
    ) -> GroupRequest:
        """A request that began at this position of the client's stream. `size` is in bytes."""
        upstream = self._frames.upstream
        return GroupRequest(
            header=header,
            message=message,
            client_host=self._client_host,
            owner=self._slot.owner,
            upstream=upstream,
            node_id=upstream.node_id,
            grants=self._grants,
            at_s=at_s,
            names_unwritable=size >= UNWRITABLE_FROM_BYTES and has_unwritable_text(message),
            private_names=self._shared.private_names,
            follows_answers=position >= self._heard_from,
            lacks_answer=self._lacks_answer,
            calls_within_ms=0 if self._calls is None else self._calls.longest_ms(at_s),
            tls_subject=self._tls_subject,
            hold=self._hold,
        )

    async def _finish(self, request: GroupRequest, response: Awaitable[Struct]) -> None:
        await self._reply(request, await response)

    async def _reply(self, request: GroupRequest, response: Struct) -> None:
        frame = await self._frames.frame_answer(request.header, response)
        await self._frames.upstream.idle()
        last_word = self._shared.group_apis.last_word(request, response)
        if last_word is not response:
            frame = await self._frames.frame_answer(request.header, last_word)
        self._record_time(request, trio.current_time())
        await self._send_all(request, frame, last_word)

    def _record_time(self, request: GroupRequest, now_s: float) -> None:
        """A call that was not answered immediately has its answer."""
        length_s = now_s - request.at_s
        if length_s >= SLOW_FROM_S:
            self._calls = self._calls or CallTimes()
            self._calls.record(length_s, now_s)

    # Commits, which the broker stores

    def _send_commit(self, request: GroupRequest, start: bytes, body: bytes) -> bool:
        """Send a commit to the broker if its group can accept it immediately. False if not.

        Until the client has the answer, its further requests wait: `_begun` is set.
        """
        upstream = self._frames.upstream
        self.lingers = True
        commit = None
        if upstream.has_room:
            begin = self._shared.group_apis.begin_commit
            commit = self._context.run(begin, request, body)
        if commit is None:
            self._begun = partial(self._answer_commits, request)
            return False

        def inspect(answer: bytes | None) -> bool:
            is_for_client, turn_s = False, self._shared.resources.poller.turn_s
            try:
                is_for_client = self._context.run(commit.take_answer, answer, turn_s)
            finally:
                rest = None if is_for_client else partial(self._end_commit, request, commit)
                if turn_s - request.at_s >= SLOW_FROM_S:
                    self._record_time(request, turn_s)
                self._record_end(rest)
            return is_for_client

        size = len(start) + len(commit.body)
        sent = bytearray(SIZE.pack(size) + start + commit.body)
        _INT16.pack_into(sent, VERSION_IN_REQUEST, commit.version)
        self._begun = self._until_end
        correlation_id = request.header.correlation_id
        rest = upstream.send_inspected(_OFFSET_COMMIT, sent, correlation_id, inspect)
        if rest:
            self._begun = partial(self._send_rest, rest)
        return not rest

    def _record_end(self, rest: Begun | None) -> None:
        """A request that was under way has its answer; `rest` is what that still takes."""
        self._begun = rest
        if self._changed is not None:
            self._changed.set()
        self._on_end()

    async def _end_commit(self, request: GroupRequest, commit: CommitUnderWay) -> None:
        await self._reply(request, await self._shared.group_apis.end_commit(request, commit))

    async def _send_rest(self, rest: memoryview) -> None:
        """Send the rest of a commit, and wait for its answer."""
        self._changed = trio.Event()
        with contextlib.suppress(BrokerLost):
            await self._frames.upstream.send_rest(rest)
        await self._changed.wait()

    async def _until_end(self) -> None:
        """Wait for the answer to a request that is under way."""
        self._changed = trio.Event()
        await self._changed.wait()

    async def _answer_commits(self, first: GroupRequest) -> None:
        """Answer a commit and the commits right behind it that have arrived, with one round trip
        instead of one for each: the member's next heartbeat waits behind all of them."""
        requests = [first]
        while (size := self._next_commit(first.header.api_version)) is not None:
            if len(requests) == COMMITS_TOGETHER_MAX:
                break
            position = self._frames.source.position
            header, message = await self._frames.hold_request(size)
            requests.append(self._request(header, message, trio.current_time(), position, size))
        responses = await self._shared.group_apis.answer_commits(requests)
        frames = [
            await self._frames.frame_answer(request.header, response)
            for request, response in zip(requests, responses, strict=True)
        ]
        await self._frames.upstream.idle()
        await self._frames.put(b"".join(frames))
        self._record_time(first, trio.current_time())

    def _next_commit(self, version: int) -> int | None:
        """The size of the next request if it is a complete commit of this version."""
        source = self._frames.source
        if not source.ready(REQUEST_START.size):
            return None
        size, api_key, next_version, _ = source.unpack(REQUEST_START)
        is_alike = (api_key, next_version) == (ApiKey.OFFSET_COMMIT, version)
        is_here = size >= SHORTEST_REQUEST and source.ready(SIZE.size + size)
        return size if is_alike and is_here else None


def is_last_word(message: Struct) -> bool:
    """Whether the request counts although its client closes the connection behind it."""
    if isinstance(message, _HEARTBEATS_WITH_EPOCHS):
        return message.member_epoch < JOIN_EPOCH
    return message.SCHEMA.api_key in LAST_WORDS


def _is_long(response: Struct) -> bool:
    """Whether encoding the answer may take milliseconds."""
    return bytes_of(response, ASIDE_FROM_BYTES) > ASIDE_FROM_BYTES


async def _fail(error: Exception) -> None:
    raise error


def _do_nothing() -> None:
    """For the end."""
