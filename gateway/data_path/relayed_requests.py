"""Relays the requests of one client to its broker.

Most pass as they are. Private names are masked (`private_names.py`), and some answers are
rewritten.
"""

from functools import partial
from typing import TypeVar

from gateway.cluster.errors import UpstreamError
from gateway.data_path.authentication import Authentication
from gateway.data_path.client_frames import ASIDE_FROM_BYTES, ClientFrames
from gateway.data_path.connection_context import ConnectionContext
from gateway.data_path.entries import bytes_of
from gateway.data_path.errors import BadFrame
from gateway.data_path.fetch_away import nothing_fetched
from gateway.data_path.fetch_held import held_fetch
from gateway.data_path.offer import NO_VERSIONS
from gateway.data_path.produce_acks import acks_of
from gateway.data_path.produce_topics import ProduceTopics
from gateway.data_path.stream import BUFFER_BYTES
from gateway.data_path.treatments import PRODUCE_ADDRESSES_SINCE, TREATMENTS
from gateway.data_path.upstream_connection import (
    CORRELATION_ID_IN_REQUEST,
    SIZE,
    Take,
    UpstreamConnection,
)
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.fetch import FetchRequest, FetchResponse
from kafka_codecs.header import decode_request_header

SEARCHED_BYTES_MAX = 16 * 1024
"""Up to this size, searching a request for a name costs less than reading its topics."""

# Every request asks for these, and Python 3.11 takes long to find an Enum's member.
_PRODUCE, _FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)

_S = TypeVar("_S", bound=Struct)


class RelayedRequests:
    """Relays one request after another. Its rest joins the run as it arrives."""

    __slots__ = (
        "_authentication",
        "_frames",
        "_has_private_names",
        "_shared",
        "_source",
        "_upstream",
        "fetches",
    )

    def __init__(
        self,
        frames: ClientFrames,
        context: ConnectionContext,
        authentication: Authentication | None,
    ) -> None:
        self._frames = frames
        self._source = frames.source
        self._upstream = frames.upstream
        self._shared = context
        self._has_private_names = bool(context.private_names)
        self._authentication = authentication
        self.fetches = 0
        """The Fetch requests that were relayed."""

    def relay_at_once(
        self,
        connection: UpstreamConnection,
        size: int,
        api_key: int,
        version: int,
        correlation_id: int,
    ) -> bool:
        """Relay the next request if that needs no waiting. False if it does, or is not relayed."""
        low, high = self._upstream.offer.relayed.get(api_key, NO_VERSIONS)
        if not low <= version <= high or not connection.has_room():
            return False
        if self._has_private_names and self._may_name_private(api_key, size):
            return False
        if self._authentication is not None:
            self._authentication.check_relayed()
        if api_key == _PRODUCE:
            acks = acks_of(self._source.head()[: SIZE.size + size], version)
            if acks is None:
                return False
            upstream_id = self._produce_id(connection, version, correlation_id, acks)
        else:
            upstream_id = connection.expect(correlation_id)
            self.fetches += api_key == _FETCH
        if upstream_id != correlation_id:
            self._source.patch(CORRELATION_ID_IN_REQUEST, upstream_id)
        self._source.relay(size)
        return True

    async def relay(self, key: ApiKey, size: int, version: int, correlation_id: int) -> None:
        """Relay the next request, which may name something private."""
        self.fetches += key is ApiKey.FETCH
        if key is ApiKey.PRODUCE:
            await self._relay_produce(size, version, correlation_id)
        elif await self._names_private(key, size):
            await self._relay_masked(key, size, version, correlation_id)
        else:
            await self._relay_unchanged(key, size, correlation_id)

    async def relay_rewritten(
        self, key: ApiKey, size: int, version: int, correlation_id: int
    ) -> None:
        """Relay the next request, and its answer with our addresses."""
        rewrite = self._shared.rewrite
        take = partial(self._frames.rewritten, key, version, correlation_id, rewrite)
        await self._relay(size, correlation_id, take)

    async def refused(self, answer: _S, *, whole: bool = False) -> _S:
        """An answer to a request in which a private name was masked, with that name refused."""
        refuse = partial(self._shared.private_names.refused, answer, whole=whole)
        return await self._frames.aside_if_large(refuse, bytes_of(answer, ASIDE_FROM_BYTES))

    async def _relay_unchanged(self, key: ApiKey, size: int, correlation_id: int) -> None:
        try:
            await self._upstream.opened()
        except UpstreamError:
            if key is not ApiKey.FETCH:
                raise
            header, request = await self._frames.hold_request(size)
            assert isinstance(request, FetchRequest)
            await self._frames.send(header, nothing_fetched(request))
        else:
            await self._relay(size, correlation_id)

    async def _relay(self, size: int, correlation_id: int, take: Take | None = None) -> None:
        connection = await self._opened_with_room()
        self._source.patch(CORRELATION_ID_IN_REQUEST, connection.expect(correlation_id, take))
        self._source.relay(size)

    async def _opened_with_room(self) -> UpstreamConnection:
        connection = await self._upstream.opened()
        await connection.room()
        return connection

    # Private names

    def _may_name_private(self, api_key: int, size: int) -> bool:
        """Whether the request may name something private. Only a short request that is completely
        here can be searched; any other must be read."""
        private, frame_bytes = self._shared.private_names, SIZE.size + size
        if not self._has_private_names or not TREATMENTS[ApiKey(api_key)].guarded:
            return False
        if size > SEARCHED_BYTES_MAX or not self._source.ready(frame_bytes):
            return True
        return private.may_be_in(bytes(self._source.head()[:frame_bytes]))

    async def _names_private(self, key: ApiKey, size: int) -> bool:
        """Whether the request names something private. A request longer than the buffer must be
        held."""
        private, frame_bytes = self._shared.private_names, SIZE.size + size
        if not self._has_private_names or not TREATMENTS[key].guarded:
            return False
        if frame_bytes > BUFFER_BYTES:
            return True
        while not self._source.ready(frame_bytes):
            await self._frames.receive()
        return private.may_be_in(bytes(self._source.head()[:frame_bytes]))

    async def _relay_masked(
        self, key: ApiKey, size: int, version: int, correlation_id: int
    ) -> None:
        frame = await self._frames.hold(size)
        hidden = self._shared.private_names.hide(frame, compact=key.is_flexible(version))
        if hidden and key is ApiKey.FETCH:
            await self._fetch_without_private(hidden.frame)
            return
        take: Take | None = None
        if hidden:
            frame = hidden.frame
            refuse = partial(self.refused, whole=hidden.whole)
            take = partial(self._frames.rewritten, key, version, correlation_id, refuse)
        connection = await self._opened_with_room()
        await connection.send_held(frame, connection.expect(correlation_id, take))

    async def _fetch_without_private(self, frame: bytes) -> None:
        """Fetch the other topics outside of any session, because a session names a topic only
        once."""
        header, body_at = decode_request_header(frame)
        request = self._frames.read(ApiKey.FETCH, header.api_version, frame[body_at:])
        assert isinstance(request, FetchRequest)
        if request.session_epoch > 0:
            await self._frames.send(header, nothing_fetched(request))
            return
        held = held_fetch(request)
        answer: FetchResponse = await self._upstream.ask(held, header.api_version)
        await self._frames.send(header, await self.refused(answer))

    # Produce, which is long: it is never held, and `acks` says whether it is answered.

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
            await self._relay_masked_topics(connection, size, upstream_id, topics)
        else:
            self._source.patch(CORRELATION_ID_IN_REQUEST, upstream_id)
            self._source.relay(size)

    async def _acks(self, size: int, version: int) -> int:
        frame_bytes = SIZE.size + size
        while True:
            head = self._source.head()[:frame_bytes]
            acks = acks_of(head, version)
            if acks is not None:
                return acks
            if len(head) in {frame_bytes, BUFFER_BYTES}:
                raise BadFrame("a Produce request without acks")
            await self._frames.receive()

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
            take = partial(self._frames.rewritten, ApiKey.PRODUCE, version, correlation_id, change)
        return connection.expect(correlation_id, take)

    async def _restore_produce_answer(self, topics: ProduceTopics | None, answer: Struct) -> Struct:
        if topics and topics.masked:
            answer = await self.refused(answer)
        return await self._shared.rewrite(answer)

    async def _relay_masked_topics(
        self,
        connection: UpstreamConnection,
        size: int,
        upstream_id: int,
        topics: ProduceTopics,
    ) -> None:
        source, left = self._source, SIZE.size + size
        source.patch(CORRELATION_ID_IN_REQUEST, upstream_id)
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
            await self._frames.receive()
        source.relay_bytes(left)
