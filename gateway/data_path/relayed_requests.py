"""Relays the requests of one client to its broker.

Most pass as they are. Private names are masked (`private_names.py`), and some answers are
rewritten. Produce and Fetch are never held for that: their names are masked as they pass
(`request_heads.py`), unless a Fetch is short.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from gateway.cluster.errors import UpstreamError
from gateway.data_path.api_table import (
    API_TABLE,
    LISTS_NAMES,
    PRODUCE_ADDRESSES_SINCE,
    ApiHandling,
)
from gateway.data_path.authentication import Authentication
from gateway.data_path.client_frames import ASIDE_FROM_BYTES, ClientFrames
from gateway.data_path.connection_context import ConnectionContext
from gateway.data_path.entities import NAMING_APIS
from gateway.data_path.entries import bytes_of
from gateway.data_path.errors import BadFrame
from gateway.data_path.fetch_away import answer_without_records
from gateway.data_path.fetch_held import held_fetch
from gateway.data_path.offer import NO_VERSIONS
from gateway.data_path.private_names import NOTHING_MASKED, Masks, restore_names
from gateway.data_path.produce_acks import acks_of
from gateway.data_path.request_heads import FetchHead, MaskBytes, ProduceHead, RequestHead
from gateway.data_path.stream import BUFFER_BYTES
from gateway.data_path.topic_pages import ask_for_page
from gateway.data_path.upstream_connection import (
    CORRELATION_ID_IN_REQUEST,
    SIZE,
    Take,
    UpstreamConnection,
)
from kafka_codecs import encode
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Entity, Struct
from kafka_codecs.describe_log_dirs import DescribeLogDirsResponse
from kafka_codecs.describe_topic_partitions import DescribeTopicPartitionsRequest
from kafka_codecs.end_txn import EndTxnRequest, EndTxnResponse
from kafka_codecs.fetch import FetchRequest, FetchResponse
from kafka_codecs.header import RequestHeader, decode_request_header, encode_request_header
from kafka_codecs.list_transactions import ListTransactionsResponse

SEARCHED_BYTES_MAX = 16 * 1024
"""Up to this size, searching a request for a name costs less than reading its topics."""

# Every request asks for these, and Python 3.11 takes long to find an Enum's member.
_PRODUCE, _FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)


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
        "is_fetch_latest",
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
        self.is_fetch_latest = False
        """Whether the latest request that was relayed is a Fetch."""

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
        if self._has_private_names and self._must_look(api_key, version, size):
            return False
        if self._authentication is not None:
            self._authentication.check_relayed()
        if api_key == _PRODUCE:
            acks = acks_of(self._source.head()[: SIZE.size + size], version)
            if acks is None:
                return False
            upstream_id = self._produce_id(connection, version, correlation_id, acks)
            self.is_fetch_latest = False
        else:
            upstream_id = connection.expect(correlation_id)
            self.is_fetch_latest = is_fetch = api_key == _FETCH
            self.fetches += is_fetch
        if upstream_id != correlation_id:
            self._source.patch(CORRELATION_ID_IN_REQUEST, upstream_id)
        self._source.relay(size)
        return True

    async def relay(self, key: ApiKey, size: int, version: int, correlation_id: int) -> None:
        """Relay the next request, which may name something private, and its answer, which may
        have to change."""
        self.is_fetch_latest = key is ApiKey.FETCH
        self.fetches += self.is_fetch_latest
        if key is ApiKey.PRODUCE:
            await self._relay_produce(size, version, correlation_id)
        elif key is ApiKey.END_TXN:
            await self._relay_transaction_end(size)
        elif key is ApiKey.DESCRIBE_TOPIC_PARTITIONS and self._has_private_names:
            await self._describe_topics(size)
        elif not await self._may_name_private(key, size):
            await self._relay_unread(key, size, version, correlation_id)
        elif key is ApiKey.FETCH and size > BUFFER_BYTES:
            connection = await self._opened_with_room()
            upstream_id = connection.expect(correlation_id)
            head = FetchHead(version, *self._masking)
            await self._relay_walked(connection, size, upstream_id, head)
        else:
            await self._relay_masked(key, size)

    async def for_client(
        self, key: ApiKey, answer: Struct, masks: Masks = NOTHING_MASKED
    ) -> Struct:
        """The answer of a broker, or of a group, as the client gets it."""
        if self._has_private_names and (masks or key in LISTS_NAMES):
            show = partial(self._hide_private, key, answer, masks)
            answer = await self._frames.aside_if_large(show, bytes_of(answer, ASIDE_FROM_BYTES))
        if API_TABLE[key].treatment is not ApiHandling.REWRITE:
            return answer
        if self._upstream.is_at_coordinator_node:  # clients ask the broker's own node as well
            match answer:
                case ListTransactionsResponse():
                    return replace(answer, transaction_states=())
                case DescribeLogDirsResponse():
                    return replace(answer, results=())
                case _:
                    pass
        return await self._shared.rewrite(answer)

    def _hide_private(self, key: ApiKey, answer: Struct, masks: Masks) -> Struct:
        if key in LISTS_NAMES:
            answer = self._shared.private_names.without_private(answer)
        return restore_names(answer, masks) if masks else answer

    def _take(
        self, key: ApiKey, version: int, correlation_id: int, masks: Masks = NOTHING_MASKED
    ) -> Take | None:
        """What the answer has to pass through; None if it needs no change."""
        is_listing = self._has_private_names and key in LISTS_NAMES
        if not masks and not is_listing and API_TABLE[key].treatment is not ApiHandling.REWRITE:
            return None
        change = partial(self.for_client, key, masks=masks)
        return partial(self._frames.rewrite, key, version, correlation_id, change)

    async def _relay_unread(
        self, key: ApiKey, size: int, version: int, correlation_id: int
    ) -> None:
        try:
            await self._upstream.get_connection()
        except UpstreamError:
            if key is not ApiKey.FETCH:
                raise
            header, request = await self._frames.hold_request(size)
            assert isinstance(request, FetchRequest)
            await self._frames.send(header, answer_without_records(request))
        else:
            await self._relay(size, correlation_id, self._take(key, version, correlation_id))

    async def _relay(self, size: int, correlation_id: int, take: Take | None = None) -> None:
        connection = await self._opened_with_room()
        self._source.patch(CORRELATION_ID_IN_REQUEST, connection.expect(correlation_id, take))
        self._source.relay(size)

    async def _opened_with_room(self) -> UpstreamConnection:
        connection = await self._upstream.get_connection()
        await connection.room()
        return connection

    # Private names

    @property
    def _masking(self) -> tuple[MaskBytes, int]:
        return self._shared.private_names.mask_bytes, self._shared.limits.max_request_entries

    def _must_look(self, api_key: int, version: int, size: int) -> bool:
        """Whether the request may name something private, or its answer list it. Only a short
        request that is completely here can be known not to, or a Produce whose names are here."""
        key: Any = api_key  # an ApiKey's hash is its number's
        if key in LISTS_NAMES:
            return True
        if key not in NAMING_APIS:
            return False
        frame_bytes = SIZE.size + size
        if api_key == _PRODUCE and size > SEARCHED_BYTES_MAX:
            return not self._produces_publicly(version, frame_bytes)
        if size > SEARCHED_BYTES_MAX or not self._source.ready(frame_bytes):
            return True
        head = self._source.head()[:frame_bytes]
        return self._shared.private_names.may_be_in(bytes(head))

    def _produces_publicly(self, version: int, frame_bytes: int) -> bool:
        """Whether all names of a Produce request are here, and none is private."""
        mask_bytes, entries_max = self._masking

        def find(name: bytes, entity: Entity, masks: Masks) -> None:
            mask_bytes(name, entity, masks)  # the request itself stays as it is

        head = ProduceHead(version, find, entries_max)
        try:
            end = head.advance(self._source.head()[:frame_bytes])
        except BadFrame:
            return False
        return head.is_done and end <= frame_bytes and not head.masks

    async def _may_name_private(self, key: ApiKey, size: int) -> bool:
        """Whether the request may name something private. One that is longer than the buffer
        counts as such."""
        frame_bytes = SIZE.size + size
        if not self._has_private_names or key not in NAMING_APIS:
            return False
        if frame_bytes > BUFFER_BYTES:
            return True
        while not self._source.ready(frame_bytes):
            await self._frames.receive()
        return self._shared.private_names.may_be_in(bytes(self._source.head()[:frame_bytes]))

    async def _relay_masked(self, key: ApiKey, size: int) -> None:
        """Relay a request as it was understood, so that no other parser reads it otherwise."""
        frame = await self._frames.hold(size)
        header, body_at = decode_request_header(frame)
        version, masks = header.api_version, NOTHING_MASKED
        if self._shared.private_names.may_be_in(frame):
            request = await self._frames.decode(header, frame[body_at:])
            request, masks = self._shared.private_names.mask(request)
            if masks and isinstance(request, FetchRequest):
                await self._fetch_without_private(header, request, masks)
                return
            frame = encode_request_header(header) + encode(request, version)
        take = self._take(key, version, header.correlation_id, masks)
        connection = await self._opened_with_room()
        await connection.send_held(frame, connection.expect(header.correlation_id, take))

    async def _relay_transaction_end(self, size: int) -> None:
        """Relay an EndTxn as it came, and note what becomes of the offsets in the transaction."""
        frame = await self._frames.hold(size)
        header, body_at = decode_request_header(frame)
        version, correlation_id = header.api_version, header.correlation_id
        request = await self._frames.decode(header, frame[body_at:])
        masked, masks = self._shared.private_names.mask(request)
        if masks:
            frame = encode_request_header(header) + encode(masked, version)
        change = partial(self._record_transaction_end, request, masks)
        take = partial(self._frames.rewrite, ApiKey.END_TXN, version, correlation_id, change)
        connection = await self._opened_with_room()
        await connection.send_held(frame, connection.expect(correlation_id, take))

    async def _record_transaction_end(
        self, request: Struct, masks: Masks, answer: Struct
    ) -> Struct:
        assert isinstance(request, EndTxnRequest)
        assert isinstance(answer, EndTxnResponse)
        if not answer.error_code:
            self._shared.group_apis.record_transaction_end(request)
        return await self.for_client(ApiKey.END_TXN, answer, masks)

    async def _describe_topics(self, size: int) -> None:
        """Answer with a page of topics whose cursor names no private one."""
        header, request = await self._frames.hold_request(size)
        assert isinstance(request, DescribeTopicPartitionsRequest)
        masked, masks = self._shared.private_names.mask(request)

        async def ask(request: Struct) -> Any:
            answer = await self._upstream.ask(request, header.api_version)
            return await self.for_client(ApiKey.DESCRIBE_TOPIC_PARTITIONS, answer, masks)

        is_private = self._shared.private_names.has_topic
        await self._frames.send(header, await ask_for_page(masked, ask, is_private))

    async def _fetch_without_private(
        self, header: RequestHeader, request: FetchRequest, masks: Masks
    ) -> None:
        """Fetch the other topics outside of any session, because a session names a topic only
        once."""
        if request.session_epoch > 0:
            await self._frames.send(header, answer_without_records(request))
            return
        held = held_fetch(request, header.api_version)
        answer: FetchResponse = await self._upstream.ask(held, header.api_version)
        await self._frames.send(header, await self.for_client(ApiKey.FETCH, answer, masks))

    async def _relay_walked(
        self, connection: UpstreamConnection, size: int, upstream_id: int, head: RequestHead
    ) -> None:
        """Relay a request while its names are masked, whatever its length."""
        source, left = self._source, SIZE.size + size
        source.patch(CORRELATION_ID_IN_REQUEST, upstream_id)
        while left:
            here = source.head()[:left]
            done = head.advance(here)
            if done > left or (not done and len(here) in {left, BUFFER_BYTES}):
                raise BadFrame(f"a {head.api_key.name} request with unreadable names")
            if head.is_done:
                break
            if done:
                source.relay_bytes(done)
                await source.catch_up(connection.sock)
                left -= done
                continue
            await source.flush(connection.sock)  # receiving would drop the run
            await self._frames.receive()
        source.relay_bytes(left)

    # Produce, which is long: it is never held, and `acks` says whether it is answered.

    async def _relay_produce(self, size: int, version: int, correlation_id: int) -> None:
        acks = await self._acks(size, version)
        head: ProduceHead | None = None
        if self._has_private_names and self._must_look(ApiKey.PRODUCE, version, size):
            head = ProduceHead(version, *self._masking)
        connection = await self._opened_with_room()
        upstream_id = self._produce_id(connection, version, correlation_id, acks, head)
        if head:
            await self._relay_walked(connection, size, upstream_id, head)
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
        head: ProduceHead | None = None,
    ) -> int:
        """The correlation id for a Produce request, whose answer is then expected if there will be
        one."""
        if acks == 0:
            return connection.unanswered_id()
        take: Take | None = None
        if head or version >= PRODUCE_ADDRESSES_SINCE:
            masks = head.masks if head else NOTHING_MASKED
            change = partial(self.for_client, ApiKey.PRODUCE, masks=masks)
            take = partial(self._frames.rewrite, ApiKey.PRODUCE, version, correlation_id, change)
        return connection.expect(correlation_id, take)
