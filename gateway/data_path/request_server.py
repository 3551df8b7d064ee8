"""Serves the requests of one client, each as the table of treatments says."""

import contextlib
import contextvars
import struct
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar, cast

import trio

from gateway.cluster.broker_connection import SOFTWARE_NAME, SOFTWARE_VERSION
from gateway.cluster.errors import UpstreamError
from gateway.data_path import offer
from gateway.data_path.authentication import TOKEN_BYTES_MAX, Authentication
from gateway.data_path.brokers import ClientSoftware
from gateway.data_path.connection_context import ConnectionContext, Rewrite
from gateway.data_path.conversions import ask_for_metadata
from gateway.data_path.entries import bytes_of, entries_of
from gateway.data_path.errors import (
    BadFrame,
    NotAuthenticated,
    RequestRefused,
    UpstreamLost,
)
from gateway.data_path.fetch_away import nothing_fetched
from gateway.data_path.fetch_held import held_fetch
from gateway.data_path.grants import Grants
from gateway.data_path.group_apis import CommitUnderWay, GroupRequest
from gateway.data_path.places import Place
from gateway.data_path.produce_acks import acks_of
from gateway.data_path.produce_topics import ProduceTopics
from gateway.data_path.removal import REBOOTSTRAP, Client
from gateway.data_path.splice import StreamEnded
from gateway.data_path.stream import BUFFER_BYTES, FrameSource
from gateway.data_path.treatments import PRODUCE_ADDRESSES_SINCE, TREATMENTS, Treatment
from gateway.data_path.upstream import Upstream
from gateway.data_path.upstream_connection import (
    CORRELATION_ID_IN_REQUEST,
    SIZE,
    Take,
    UpstreamConnection,
)
from gateway.transport.sockets import TlsSocket, Transport, send_all
from kafka_codecs import WireError, decode, encode
from kafka_codecs.api_versions import ApiVersionsRequest
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.fetch import FetchRequest, FetchResponse
from kafka_codecs.find_coordinator import FindCoordinatorResponse
from kafka_codecs.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_response_header,
)
from kafka_codecs.metadata import MetadataRequest

ASIDE_FROM_BYTES = 64 * 1024
"""From this size on, decoding or encoding a message takes about ten milliseconds."""

COMMITS_TOGETHER_MAX = 32
"""Commits of one client that may wait for the broker together."""

SEARCHED_BYTES_MAX = 16 * 1024
"""Up to this size, searching a request for a name costs less than reading its topics."""

REQUEST_START = struct.Struct(">ihhi")  # size, api key, api version, correlation id
SHORTEST_REQUEST = REQUEST_START.size - SIZE.size

VERSION_IN_REQUEST = 2  # without its size
_INT16 = struct.Struct(">h")

_ANSWERED_AT_ONCE = frozenset(
    {ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT}
)
_NO_VERSION = (0, -1)
_T = TypeVar("_T")
_S = TypeVar("_S", bound=Struct)
Begun = Callable[[], Awaitable[None]]
"""Finishes an answer that takes time."""


class RequestServer:
    """Serves one request of a client after another.

    Whoever calls has sent the run of relayed requests to the broker before `serve`.
    """

    __slots__ = (
        "_authentication",
        "_begun",
        "_changed",
        "_client_host",
        "_context",
        "_grants",
        "_on_stored",
        "_place",
        "_shared",
        "_sock",
        "_source",
        "_tls_subject",
        "_upstream",
    )

    def __init__(
        self,
        sock: Transport,
        source: FrameSource,
        upstream: Upstream,
        *,
        client_host: str,
        place: Place,
        context: ConnectionContext,
        on_stored: Callable[[], None],
    ) -> None:
        """`on_stored` is called when a commit that was sent at once has its answer."""
        self._sock = sock
        self._source = source
        self._upstream = upstream
        self._client_host = client_host
        self._place = place
        self._tls_subject = sock.subject if isinstance(sock, TlsSocket) else None
        self._shared = context
        self._authentication: Authentication | None = None
        self._grants = context.anonymous_grants
        self._context = contextvars.copy_context()
        self._begun: Begun | None = None
        self._on_stored = on_stored
        self._changed: trio.Event | None = None  # of `_begun`, while `serve` waits for that
        if context.clients_authenticate:
            limits = context.limits
            self._authentication = Authentication(
                upstream, place, timeout_s=limits.handshake_timeout_s
            )
            self._grants = Grants(limits)

    def is_overdue(self, now_s: float) -> bool:
        """Whether the client has not authenticated in time."""
        return self._authentication is not None and self._authentication.is_overdue(now_s)

    def relay(
        self,
        upstream: UpstreamConnection,
        size: int,
        api_key: int,
        version: int,
        correlation_id: int,
    ) -> bool:
        """Relay the next request if that can be done at once. Otherwise `serve` it."""
        low, high = self._upstream.offer.relayed.get(api_key, _NO_VERSION)
        if not low <= version <= high or not upstream.has_room:
            return False
        if self._shared.private_names and self._may_name_private(api_key, size):
            return False
        acks = -1
        if api_key == ApiKey.PRODUCE:
            known = acks_of(self._source.head()[: SIZE.size + size], version)
            if known is None:
                return False
            acks = known
        if self._authentication is not None:
            self._authentication.check_relayed()
        if api_key == ApiKey.PRODUCE:
            upstream_id = self._produce_id(upstream, version, correlation_id, acks)
        else:
            upstream_id = upstream.expect(correlation_id)
        self._source.relay_as(upstream_id, CORRELATION_ID_IN_REQUEST, size)
        return True

    def answer(self, size: int, api_key: int, version: int) -> bool:
        """Answer the next request if its group can at once. Otherwise `serve` it.

        Only the last request that is here: a client that sends many must not hold up others.
        """
        source, upstream = self._source, self._upstream
        low, high = upstream.offer.offered.get(api_key, _NO_VERSION)
        if api_key not in _ANSWERED_AT_ONCE or not low <= version <= high:
            return False
        if source.has_run or len(source.head()) != SIZE.size + size or size >= ASIDE_FROM_BYTES:
            return False
        if not upstream.is_idle:
            return False
        if self._authentication is not None and not self._authentication.check_answered():
            return False
        frame = source.take_out(size)
        header, offset = decode_request_header(frame)
        upstream.client_id = header.client_id
        entries_max = self._shared.limits.max_request_entries
        message = _read_request(api_key, version, frame[offset:], entries_max)
        request = self._group_request(header, message)
        if api_key == ApiKey.OFFSET_COMMIT:
            return self._store(request, frame, offset)
        response = self._context.run(self._shared.group_apis.answer, request)
        if not isinstance(response, Struct):
            self._begun = partial(self._finish, request, response)
            return False
        if bytes_of(response, ASIDE_FROM_BYTES) >= ASIDE_FROM_BYTES:
            self._begun = partial(self._reply, request, response)
            return False
        frame = _framed_answer(
            header, version, self._shared.group_apis.last_word(request, response)
        )
        try:
            sent = self._sock.send(frame)
        except BlockingIOError:
            sent = 0
        if sent < len(frame):
            self._begun = partial(send_all, self._sock, frame[sent:])
        return self._begun is None

    def _store(self, request: GroupRequest, frame: bytes, body_at: int) -> bool:
        """Send a commit to the broker if its group can accept it at once. False if not.

        Until the client has the answer, its further requests wait: `_begun` is set.
        """
        apis, upstream = self._shared.group_apis, self._upstream
        commit = None
        if upstream.has_room:
            commit = self._context.run(apis.begin_commit, request, frame[body_at:])
        if commit is None:
            self._begun = partial(self._answer_commits, request)
            return False

        def inspect(answer: bytes | None) -> bool:
            is_for_client = False
            try:
                is_for_client = self._context.run(commit.stored, answer)
            finally:
                rest = partial(self._end_commit, request, commit)
                self._note_stored(None if is_for_client else rest)
            return is_for_client

        sent = bytearray(frame[:body_at]) + commit.body
        _INT16.pack_into(sent, VERSION_IN_REQUEST, commit.version)
        self._begun = self._until_stored
        correlation_id = request.header.correlation_id
        rest = upstream.send_inspected(ApiKey.OFFSET_COMMIT, sent, correlation_id, inspect)
        if rest:
            self._begun = partial(self._send_rest, rest)
        return not rest

    def close(self) -> None:
        """Forget the connection, which need not wait for the garbage collector then."""
        self._on_stored = _do_nothing

    def _note_stored(self, rest: Begun | None) -> None:
        """The broker has answered a commit; `rest` is what the client's answer still takes."""
        self._begun = rest
        if self._changed is not None:
            self._changed.set()
        self._on_stored()

    async def _end_commit(self, request: GroupRequest, commit: CommitUnderWay) -> None:
        await self._reply(request, await self._shared.group_apis.end_commit(request, commit))

    async def _send_rest(self, rest: memoryview) -> None:
        """Send the rest of a commit, and wait for its answer."""
        self._changed = trio.Event()
        with contextlib.suppress(UpstreamLost):
            await self._upstream.send_rest(rest)
        await self._changed.wait()

    async def _until_stored(self) -> None:
        """Wait for the answer to a commit that was sent at once."""
        self._changed = trio.Event()
        await self._changed.wait()

    @property
    def has_begun(self) -> bool:
        """Whether `serve` has to finish an answer."""
        return self._begun is not None

    async def finish_begun(self) -> None:
        """Finish what `answer` has begun, if anything."""
        while self._begun is not None:
            begun, self._begun = self._begun, None
            await begun()
        self._changed = None

    async def serve(self) -> None:
        """Serve the next request, the beginning of which is here, or finish what `answer` has
        begun.

        A relayed request need not be here completely at the end; its rest joins the run as it
        arrives.
        """
        if self.has_begun:
            await self.finish_begun()
            return
        size, api_key, version, correlation_id = self._source.unpack(REQUEST_START)
        if api_key == ApiKey.API_VERSIONS:
            await self._answer_api_versions(size)
            return
        if not self._upstream.is_negotiated:
            await self._upstream.negotiate(ClientSoftware())
        treatment = self._treatment(api_key, version)
        if self._authentication is not None:
            if treatment is Treatment.SASL:
                await self._authenticate(self._authentication, size)
                return
            await self._authentication.check(treatment)
        if api_key == ApiKey.PRODUCE:
            await self._relay_produce(size, version, correlation_id)
        elif treatment in {Treatment.RELAY, Treatment.SASL}:  # a port without SASL refuses it
            await self._relay_guarded(ApiKey(api_key), size, version, correlation_id)
        elif api_key == ApiKey.METADATA and self._is_sent_away(version):
            await self._send((await self._hold_request(size))[0], REBOOTSTRAP)
        elif api_key == ApiKey.METADATA and await self._must_recall():
            await self._recall_metadata(size)
        elif treatment is Treatment.REWRITE and version > self._upstream.versions[api_key][1]:
            await self._ask_for_metadata(*await self._hold_request(size))
        elif treatment is Treatment.REWRITE:
            rewrite = self._shared.rewrite
            take = partial(self._rewritten, ApiKey(api_key), version, correlation_id, rewrite)
            await self._relay(size, correlation_id, take)
        else:
            await self._answer(ApiKey(api_key), size)

    def _is_sent_away(self, version: int) -> bool:
        """Whether to answer Metadata with the advice to bootstrap again."""
        client = Client(self._client_host, self._upstream.software.client_id)
        return self._shared.removal.tells(client, version)

    async def _must_recall(self) -> bool:
        """Whether memory has to answer Metadata. It has what the gateway may see, so it answers no
        client that has permissions of its own."""
        return self._authentication is None and not await self._upstream.is_there()

    async def _authenticate(self, authentication: Authentication, size: int) -> None:
        """Relay a step of the client's SASL exchange."""
        if size > TOKEN_BYTES_MAX:
            raise BadFrame(f"a SASL request of {size} bytes")
        header, request = await self._hold_request(size)
        step = await authentication.advance(request, header.api_version)
        await self._send(header, step.answer)
        if step.refusal is not None:
            raise NotAuthenticated(step.refusal)
        while authentication.expects_raw_tokens:
            while not self._source.ready(SIZE.size):
                if not await self._source.fill():
                    return
            (size,) = self._source.unpack(SIZE)
            if not 0 <= size <= TOKEN_BYTES_MAX:
                raise BadFrame(f"a SASL token of {size} bytes")
            token = await authentication.advance_raw(await self._source.hold(size))
            await send_all(self._sock, SIZE.pack(len(token)) + token)

    def _treatment(self, api_key: int, version: int) -> Treatment:
        low, high = self._upstream.offer.offered.get(api_key, _NO_VERSION)
        if not low <= version <= high:
            raise RequestRefused(api_key, version)
        return TREATMENTS[ApiKey(api_key)].treatment

    async def _relay(self, size: int, correlation_id: int, take: Take | None = None) -> None:
        connection = await self._opened_with_room()
        upstream_id = connection.expect(correlation_id, take)
        self._source.relay_as(upstream_id, CORRELATION_ID_IN_REQUEST, size)

    async def _opened_with_room(self) -> UpstreamConnection:
        connection = await self._upstream.opened()
        await connection.room()
        return connection

    async def _relay_produce(self, size: int, version: int, correlation_id: int) -> None:
        acks = await self._acks(size, version)
        topics: ProduceTopics | None = None
        if self._may_name_private(ApiKey.PRODUCE, size):
            mask_of = self._shared.private_names.mask_of
            entries_max = self._shared.limits.max_request_entries
            topics = ProduceTopics(version, mask_of, entries_max=entries_max)
        connection = await self._opened_with_room()
        upstream_id = self._produce_id(connection, version, correlation_id, acks, topics)
        if topics:
            await self._relay_masked(connection, size, upstream_id, topics)
        else:
            self._source.relay_as(upstream_id, CORRELATION_ID_IN_REQUEST, size)

    def _produce_id(
        self,
        connection: UpstreamConnection,
        version: int,
        correlation_id: int,
        acks: int,
        topics: ProduceTopics | None = None,
    ) -> int:
        """The correlation id for a Produce request, whose answer is then expected if there will be
        one."""
        if acks == 0:
            return connection.unanswered_id()
        take: Take | None = None
        if topics or version >= PRODUCE_ADDRESSES_SINCE:
            change = partial(self._restore_produce_answer, topics)
            take = partial(self._rewritten, ApiKey.PRODUCE, version, correlation_id, change)
        return connection.expect(correlation_id, take)

    def _may_name_private(self, api_key: int, size: int) -> bool:
        """Whether the request may name something private. Only a short request that is completely
        here can be searched; any other must be read."""
        private, frame_bytes = self._shared.private_names, SIZE.size + size
        if not private or not TREATMENTS[ApiKey(api_key)].guarded:
            return False
        if size > SEARCHED_BYTES_MAX or not self._source.ready(frame_bytes):
            return True
        return private.may_be_in(bytes(self._source.head()[:frame_bytes]))

    async def _restore_produce_answer(self, topics: ProduceTopics | None, answer: Struct) -> Struct:
        if topics and topics.masked:
            answer = await self._refused(answer)
        return await self._shared.rewrite(answer)

    async def _relay_untouched(self, api_key: int, size: int, correlation_id: int) -> None:
        try:
            await self._upstream.opened()
        except UpstreamError:
            if api_key != ApiKey.FETCH:
                raise
            header, request = await self._hold_request(size)
            assert isinstance(request, FetchRequest)
            await self._send(header, nothing_fetched(request))
        else:
            await self._relay(size, correlation_id)

    async def _relay_guarded(
        self, key: ApiKey, size: int, version: int, correlation_id: int
    ) -> None:
        """Relay a request. If it names something private, hide the name and restore it as
        refused."""
        private = self._shared.private_names
        if not private or not TREATMENTS[key].guarded or not await self._names_private(size):
            await self._relay_untouched(key, size, correlation_id)
            return
        frame = await self._hold_frame(size)
        hidden = private.hide(frame, compact=key.is_flexible(version))
        if hidden and key is ApiKey.FETCH:
            await self._fetch_without_private(hidden.frame)
            return
        take: Take | None = None
        if hidden:
            frame = hidden.frame

            async def refuse(answer: Struct) -> Struct:
                return await self._refused(answer, whole=hidden.whole)

            take = partial(self._rewritten, key, version, correlation_id, refuse)
        connection = await self._opened_with_room()
        await connection.send_held(frame, connection.expect(correlation_id, take))

    async def _names_private(self, size: int) -> bool:
        """Whether the request names something private. A request longer than the buffer must be
        held."""
        frame_bytes = SIZE.size + size
        if frame_bytes > BUFFER_BYTES:
            return True
        while not self._source.ready(frame_bytes):
            await self._receive()
        return self._shared.private_names.may_be_in(bytes(self._source.head()[:frame_bytes]))

    async def _fetch_without_private(self, frame: bytes) -> None:
        """Fetch the other topics outside of any session, because a session names a topic only
        once."""
        header, offset = decode_request_header(frame)
        entries_max = self._shared.limits.max_request_entries
        version, body = header.api_version, frame[offset:]
        request = _read_request(ApiKey.FETCH, version, body, entries_max)
        assert isinstance(request, FetchRequest)
        if request.session_epoch > 0:
            await self._send(header, nothing_fetched(request))
            return
        answer: FetchResponse = await self._upstream.ask(held_fetch(request), version)
        await self._send(header, await self._refused(answer))

    async def _relay_masked(
        self,
        connection: UpstreamConnection,
        size: int,
        upstream_correlation_id: int,
        topics: ProduceTopics,
    ) -> None:
        source, left = self._source, SIZE.size + size
        source.patch(CORRELATION_ID_IN_REQUEST, upstream_correlation_id)
        while left and not topics.is_done:
            here = source.head()[:left]
            done = topics.advance(here)
            if done > left or (not done and len(here) in {left, BUFFER_BYTES}):
                raise BadFrame("a Produce request with unreadable topics")
            if done:
                source.relay_bytes(done)
                await source.catch_up(connection.sock)
                left -= done
                continue
            await self._receive()
        source.relay_bytes(left)

    async def _receive(self) -> None:
        if not await self._source.fill():
            raise StreamEnded

    async def _acks(self, size: int, version: int) -> int:
        frame_bytes = SIZE.size + size
        while True:
            head = self._source.head()[:frame_bytes]
            acks = acks_of(head, version)
            if acks is not None:
                return acks
            if len(head) in {frame_bytes, BUFFER_BYTES}:
                raise BadFrame("a Produce request without acks")
            await self._receive()

    async def _rewritten(
        self, key: ApiKey, version: int, correlation_id: int, rewrite: Rewrite, answer: bytes
    ) -> bytes:
        _, offset = decode_response_header(key, version, answer)
        body = answer[offset:]
        # librdkafka's mock cluster ends its Metadata answers with one byte too many.
        read = partial(decode, APIS[key].response, body, version, trailing_ok=True)
        message = await self._in_thread_if_large(read, len(body))
        rewritten = await rewrite(message)
        write = partial(_framed, key, version, correlation_id, rewritten)
        return await self._in_thread_if_large(write, len(body))

    async def _in_thread_if_large(self, work: Callable[[], _T], size: int) -> _T:
        """Do the work here, or in a thread if its size would delay other connections."""
        if size < ASIDE_FROM_BYTES:
            return work()
        return await trio.to_thread.run_sync(work, limiter=self._shared.aside)

    async def _refused(self, answer: _S, *, whole: bool = False) -> _S:
        """An answer to a request in which a private name was hidden, with that name refused."""
        refuse = partial(self._shared.private_names.refused, answer, whole=whole)
        return await self._in_thread_if_large(refuse, bytes_of(answer, ASIDE_FROM_BYTES))

    async def _recall_metadata(self, size: int) -> None:
        """Answer from memory if no broker can. Otherwise wait for the client's own broker."""
        header, request = await self._hold_request(size)
        assert isinstance(request, MetadataRequest)
        answer = await self._shared.recall_metadata(request)
        if answer is not None:
            await self._send(header, await self._shared.rewrite(answer))
        else:
            await self._upstream.opened()
            await self._ask_for_metadata(header, request)

    async def _ask_for_metadata(self, header: RequestHeader, request: Struct) -> None:
        """Ask the upstream in a version that it supports, and answer in the client's version."""
        assert isinstance(request, MetadataRequest)
        names, version = self._shared.topic_names, header.api_version
        answer = await ask_for_metadata(request, self._upstream, version, names)
        await self._send(header, await self._shared.rewrite(answer))

    async def _answer(self, key: ApiKey, size: int) -> None:
        header, body = await self._hold(size)
        hidden = None
        if TREATMENTS[key].guarded:
            compact = key.is_flexible(header.api_version)
            hidden = self._shared.private_names.hide(body, compact=compact)
        message = await self._decoded(header, hidden.frame if hidden else body)
        request = self._group_request(header, message)
        if key is ApiKey.OFFSET_COMMIT:
            await self._answer_commits(request)
            return
        response = self._shared.group_apis.answer(request)
        if not isinstance(response, Struct):
            response = await response
        if isinstance(response, FindCoordinatorResponse):
            response = await self._shared.rewrite(response)
        if hidden:
            response = await self._refused(response)
        await self._reply(request, response)

    async def _finish(self, request: GroupRequest, response: Awaitable[Struct]) -> None:
        await self._reply(request, await response)

    async def _reply(self, request: GroupRequest, response: Struct) -> None:
        frame = await self._frame(request.header, response)
        await self._upstream.idle()
        last_word = self._shared.group_apis.last_word(request, response)
        if last_word is not response:
            frame = await self._frame(request.header, last_word)
        await send_all(self._sock, frame)

    async def _answer_commits(self, first: GroupRequest) -> None:
        """Answer a commit and the commits right behind it that have arrived, with one round trip
        instead of one for each: the member's next heartbeat waits behind all of them."""
        requests = [first]
        while (size := self._next_commit(first.header.api_version)) is not None:
            if len(requests) == COMMITS_TOGETHER_MAX:
                break
            requests.append(self._group_request(*await self._hold_request(size)))
        responses = await self._shared.group_apis.answer_commits(requests)
        frames = [
            await self._frame(request.header, response)
            for request, response in zip(requests, responses, strict=True)
        ]
        await self._upstream.idle()
        await send_all(self._sock, b"".join(frames))

    def _next_commit(self, version: int) -> int | None:
        """The size of the next request if it is a complete commit of this version."""
        if not self._source.ready(REQUEST_START.size):
            return None
        size, api_key, its_version, _ = self._source.unpack(REQUEST_START)
        is_alike = (api_key, its_version) == (ApiKey.OFFSET_COMMIT, version)
        is_here = size >= SHORTEST_REQUEST and self._source.ready(SIZE.size + size)
        return size if is_alike and is_here else None

    def _group_request(self, header: RequestHeader, message: Struct) -> GroupRequest:
        return GroupRequest(
            header=header,
            message=message,
            client_host=self._client_host,
            owner=self._place.owner,
            upstream=self._upstream,
            node_id=self._upstream.node_id,
            grants=self._grants,
            tls_subject=self._tls_subject,
        )

    async def _hold_request(self, size: int) -> tuple[RequestHeader, Struct]:
        header, body = await self._hold(size)
        return header, await self._decoded(header, body)

    async def _decoded(self, header: RequestHeader, body: bytes) -> Struct:
        self._upstream.client_id = header.client_id
        entries_max = self._shared.limits.max_request_entries
        key = ApiKey(header.api_key)
        read = partial(_read_request, key, header.api_version, body, entries_max)
        return await self._in_thread_if_large(read, len(body))

    async def _answer_api_versions(self, size: int) -> None:
        header, body = await self._hold(size)
        if header.api_version not in APIS[ApiKey.API_VERSIONS].versions:
            await self._send(header, offer.too_new_answer(), version=0)
            return
        request = decode(ApiVersionsRequest, body, header.api_version, trailing_ok=True)
        if not offer.well_formed(request, header.api_version):
            await self._send(header, offer.refused_answer())
            return
        if not self._upstream.is_negotiated:
            await self._upstream.negotiate(
                ClientSoftware(
                    client_id=header.client_id,
                    name=request.client_software_name or SOFTWARE_NAME,
                    version=request.client_software_version or SOFTWARE_VERSION,
                )
            )
        known = self._upstream.offer
        answer = offer.api_versions_answer(known.offered, known.spoken, header.api_version)
        await self._send(header, answer)

    async def _hold(self, size: int) -> tuple[RequestHeader, bytes]:
        frame = await self._hold_frame(size)
        header, offset = decode_request_header(frame)
        return header, frame[offset:]

    async def _hold_frame(self, size: int) -> bytes:
        if size > self._shared.limits.max_held_request_bytes:
            raise BadFrame(f"a request of {size} bytes, above the limit for its api")
        return await self._source.hold(size)

    async def _send(
        self, header: RequestHeader, response: Struct, version: int | None = None
    ) -> None:
        """Answer the client, after every earlier answer has been sent."""
        frame = await self._frame(header, response, version)
        await self._upstream.idle()
        await send_all(self._sock, frame)

    async def _frame(
        self, header: RequestHeader, response: Struct, version: int | None = None
    ) -> bytes:
        if version is None:
            version = header.api_version
        write = partial(_framed_answer, header, version, response)
        return await self._in_thread_if_large(write, bytes_of(response, ASIDE_FROM_BYTES))


def _do_nothing() -> None:
    """For the end."""


def _read_request(key: int, version: int, body: bytes, entries_max: int) -> Struct:
    request = APIS[cast(ApiKey, key)].request  # an ApiKey's hash is its number's
    assert request is not None
    message = decode(request, body, version, trailing_ok=True)
    # Every entry takes at least one byte.
    if len(body) > entries_max and entries_of(message) > entries_max:
        raise BadFrame(f"a {ApiKey(key).name} request with more than {entries_max} entries")
    return message


def _framed(key: int, version: int, correlation_id: int, response: Struct) -> bytes:
    answer = encode_response_header(key, version, correlation_id) + encode(response, version)
    return SIZE.pack(len(answer)) + answer


def _framed_answer(header: RequestHeader, version: int, response: Struct) -> bytes:
    try:
        return _framed(header.api_key, version, header.correlation_id, response)
    except WireError as error:  # the gateway made this answer, so the bug is here
        name = ApiKey(header.api_key).name
        raise ValueError(f"invalid answer to {name} version {version}") from error
