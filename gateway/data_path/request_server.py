"""Serves the requests of one client that take time, each as the table of treatments says."""

from typing import Any

from gateway.data_path import offer
from gateway.data_path.api_table import API_TABLE, LEFT_OUT, ApiHandling
from gateway.data_path.authentication import TOKEN_BYTES_MAX, Authentication
from gateway.data_path.brokers import ClientSoftware
from gateway.data_path.client_frames import REQUEST_START, ClientFrames
from gateway.data_path.connection_context import ConnectionContext
from gateway.data_path.connection_limiter import ConnectionSlot
from gateway.data_path.conversions import ask_for_metadata
from gateway.data_path.errors import BadFrame, NotAuthenticated, RequestRefused
from gateway.data_path.group_requests import GroupRequests
from gateway.data_path.introductions import (
    VersionsRefusal,
    read_introduction,
    software_of,
    versions_answer,
)
from gateway.data_path.private_names import Masks
from gateway.data_path.relayed_requests import RelayedRequests
from gateway.data_path.removal import REBOOTSTRAP, ClientIdentity
from gateway.data_path.upstream_connection import SIZE
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.header import RequestHeader
from kafka_codecs.metadata import MetadataRequest, MetadataResponse


class RequestServer:
    """Serves one request of a client after another.

    The caller has sent the run of relayed requests to the broker before `serve`.
    """

    __slots__ = (
        "_authentication",
        "_client_host",
        "_frames",
        "_groups",
        "_relayed",
        "_shared",
        "_slot",
        "_source",
        "_upstream",
    )

    def __init__(
        self,
        frames: ClientFrames,
        context: ConnectionContext,
        authentication: Authentication | None,
        relayed: RelayedRequests,
        groups: GroupRequests,
        *,
        client_host: str,
        slot: ConnectionSlot,
    ) -> None:
        self._frames = frames
        self._source = frames.source
        self._upstream = frames.upstream
        self._shared = context
        self._authentication = authentication
        self._relayed = relayed
        self._groups = groups
        self._client_host = client_host
        self._slot = slot

    async def serve(self) -> None:
        """Serve the next request, the beginning of which is here.

        A relayed request need not be here completely at the end; its rest joins the run as it
        arrives.
        """
        size, api_key, version, correlation_id = self._source.unpack(REQUEST_START)
        if api_key == ApiKey.API_VERSIONS:
            await self._answer_api_versions(size)
            return
        if not self._upstream.is_negotiated:
            await self._negotiate(ClientSoftware())
        key = self._api(api_key, version)
        treatment = API_TABLE[key].treatment
        if self._authentication is not None:
            if treatment is ApiHandling.SASL:
                await self._authenticate(self._authentication, size)
                return
            await self._authentication.check(treatment)
        # Without SASL of clients, the broker refuses a SASL request.
        if treatment in {ApiHandling.RELAY, ApiHandling.SASL}:
            await self._relayed.relay(key, size, version, correlation_id)
        elif key is ApiKey.METADATA and self._is_sent_away(version):
            header, _body = await self._frames.hold_body(size)
            await self._frames.send(header, REBOOTSTRAP)
        elif key is ApiKey.METADATA and await self._must_recall():
            await self._recall_metadata(size)
        elif treatment is ApiHandling.REWRITE and version > self._upstream.versions[key][1]:
            await self._ask_for_metadata(*await self._frames.hold_request(size))
        elif treatment is ApiHandling.REWRITE:
            await self._relayed.relay(key, size, version, correlation_id)
        else:
            await self._groups.answer(key, size)

    def _api(self, api_key: int, version: int) -> ApiKey:
        """The api that has this key here. Raises RequestRefused."""
        ours = self._shared.client_side_apis.get(api_key)
        if ours is None:
            low, high = self._upstream.offer.offered.get(api_key, offer.NO_VERSIONS)
        else:
            low, high = offer.versions_of(ours)
        if not low <= version <= high:
            key: Any = api_key  # an ApiKey's hash is its number's
            raise RequestRefused(api_key, version, LEFT_OUT.get(key, "it was not offered"))
        return ApiKey(api_key) if ours is None else ours

    async def _authenticate(self, authentication: Authentication, size: int) -> None:
        """Relay a step of the client's SASL exchange."""
        if size > TOKEN_BYTES_MAX:
            raise BadFrame(f"a SASL request of {size} bytes")
        header, request = await self._frames.hold_request(size)
        step = await authentication.advance(request, header.api_version)
        await self._frames.send(header, step.answer)
        if step.refusal is not None:
            raise NotAuthenticated(step.refusal)
        while authentication.expects_raw_tokens:
            while not self._source.ready(SIZE.size):
                if not await self._source.fill():
                    return
            (size,) = self._source.unpack(SIZE)
            if not 0 <= size <= TOKEN_BYTES_MAX:
                raise BadFrame(f"a SASL token of {size} bytes")
            token = await authentication.advance_raw(await self._frames.hold(size))
            await self._frames.put(SIZE.pack(len(token)) + token)

    async def _answer_api_versions(self, size: int) -> None:
        header, body = await self._frames.hold_body(size)
        request = read_introduction(header, body, self._shared, self._upstream)
        if isinstance(request, VersionsRefusal):
            await self._frames.send(header, request.answer, request.version)
            return
        software = software_of(header, request)
        if not self._upstream.is_negotiated:
            await self._negotiate(software)
        elif request.client_software_name:
            await self._introduce(software)
        answer = versions_answer(self._upstream, self._shared, header)
        await self._upstream.idle()
        await self._frames.put(answer)

    async def _negotiate(self, software: ClientSoftware) -> None:
        await self._upstream.negotiate(software)
        self._slot.introduce(software.client_id, self._upstream.number)

    async def _introduce(self, software: ClientSoftware) -> None:
        """Java asks for versions again once it has authenticated, and says what it is only then."""
        authentication = self._authentication
        # In the middle of an exchange a broker closes the connection at any other request.
        may_introduce = authentication is None or authentication.is_settled
        await self._upstream.introduce(software, to_broker=may_introduce)

    def _is_sent_away(self, version: int) -> bool:
        """Whether to answer Metadata with the advice to bootstrap again."""
        client = ClientIdentity(self._client_host, self._upstream.software.client_id)
        return self._shared.removal.tells(client, version)

    async def _must_recall(self) -> bool:
        """Whether memory has to answer Metadata. It has what the gateway may see, so it answers no
        client that has permissions of its own."""
        return self._authentication is None and not await self._upstream.is_there()

    async def _recall_metadata(self, size: int) -> None:
        """Answer from memory if no broker can. Otherwise wait for the client's own broker."""
        header, request = await self._frames.hold_request(size)
        assert isinstance(request, MetadataRequest)
        masked, masks = self._shared.private_names.mask(request)
        answer = await self._shared.recall_metadata(masked, header.api_version)
        if answer is not None:
            await self._send_metadata(header, answer, masks)
        else:
            await self._upstream.get_connection()
            await self._ask_for_metadata(header, request)

    async def _ask_for_metadata(self, header: RequestHeader, request: Struct) -> None:
        """Ask the upstream in a version that it supports, and answer in the client's version."""
        assert isinstance(request, MetadataRequest)
        names, version = self._shared.topic_names, header.api_version
        masked, masks = self._shared.private_names.mask(request)
        answer = await ask_for_metadata(masked, self._upstream, version, names)
        await self._send_metadata(header, answer, masks)

    async def _send_metadata(
        self, header: RequestHeader, answer: MetadataResponse, masks: Masks
    ) -> None:
        shown = await self._relayed.for_client(ApiKey.METADATA, answer, masks)
        await self._frames.send(header, shown)
