"""Admin requests about groups of another process: the process that has the client asks the one that
has the groups.

The owner answers as it answers its own clients. What it has to ask the cluster, permissions above
all, it asks through the client's own connection: it sends the question back over the socket. Each
message is a line of JSON, and each call has a connection of its own. Only the owner of the state
folder can connect.
"""

import base64
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import structlog
import trio

from gateway.control.control_socket import NoControlSocket, connect, listening
from gateway.data_path.brokers import ClientSoftware
from gateway.data_path.config import Limits
from gateway.data_path.errors import BrokerLost, TooMuchHeld
from gateway.data_path.grants import OF_ONE_CLIENT_MAX, Grants
from gateway.data_path.group_apis import GroupRequest
from gateway.data_path.held_requests import COUNTED_FROM_BYTES, HeldRequests
from gateway.data_path.private_names import NOTHING_PRIVATE, PrivateNames
from gateway.data_path.upstream import Upstream
from gateway.fleet.fleet_state import SLOTS_FOLDER
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.codec import decode, encode
from kafka_codecs.declaration import Struct
from kafka_codecs.header import RequestHeader

SOCKET_NAME = "calls.sock"
AWAY = "the gateway that has the group cannot be asked at the moment: try again"
CALLS_MAX = 64
"""Calls that a process answers at a time."""
CALL_S = 20.0
"""How long a call may take."""
LINE_BYTES_MAX = 128 * 1024 * 1024
"""A line has the longest answer of a broker that is held in memory, in base64."""

_CHUNK_BYTES = 64 * 1024

log = structlog.get_logger()


class UnreadableLine(Exception):
    """The line is too long, or the stream ended first."""


class OwnerAway(Exception):
    """The process that has the groups did not answer. It is being started again, perhaps."""


class OwnerAsker(Protocol):
    """Asks who has a group, on behalf of an admin client of this process."""

    async def ask(self, slot: int, request: GroupRequest, message: Struct) -> Any:
        """What the process of this slot answers to a message in place of the request's own. Raises
        OwnerAway, BrokerLost, TooMuchHeld."""
        ...


class OwnerCalls:
    """Asks the other processes of this machine."""

    def __init__(self, folder: Path) -> None:
        """`folder`: the state folder of the fleet."""
        self._folder = folder

    async def ask(self, slot: int, request: GroupRequest, message: Struct) -> Any:
        """See `OwnerAsker`."""
        try:
            with trio.fail_after(CALL_S):
                folder = self._folder / SLOTS_FOLDER / str(slot)
                async with await connect(folder, SOCKET_NAME) as stream:
                    return await _ask(stream, request, message)
        except (NoControlSocket, UnreadableLine, trio.BrokenResourceError, trio.TooSlowError):
            raise OwnerAway from None


async def _ask(stream: trio.SocketStream, request: GroupRequest, message: Struct) -> Any:
    header, upstream = request.header, request.upstream
    await _send(
        stream,
        {
            "api_key": int(header.api_key),
            "api_version": header.api_version,
            "client_id": header.client_id,
            "message": _to_text(message, header.api_version),
            "client_host": request.client_host,
            "owner": list(request.owner),
            "node_id": request.node_id,
            "versions": {int(key): list(span) for key, span in upstream.versions.items()},
        },
    )
    while True:
        line = await _receive(stream)
        if "answer" in line:
            if len(line["answer"]) >= COUNTED_FROM_BYTES:
                request.hold(len(line["answer"]))
            key = ApiKey(header.api_key)
            return _from_text(APIS[key].response, line["answer"], header.api_version)
        if "question" not in line:
            raise OwnerAway
        version, key = line["version"], ApiKey(line["api_key"])
        question = cast(Struct, _from_text(APIS[key].request, line["question"], version))
        try:
            reply = _to_text(await upstream.ask(question, version), version)
        except BrokerLost:
            reply = None
        await _send(stream, {"reply": reply})


async def serve_calls(
    folder: Path,
    answer: Callable[[GroupRequest], Awaitable[Struct]],
    limits: Limits,
    held: HeldRequests,
    *,
    private_names: PrivateNames = NOTHING_PRIVATE,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer calls until cancelled. `folder`: this process's own, which it has locked. `held`
    counts what the calls take, and no answer names what is private. Raises NoControlSocket."""
    places = trio.CapacityLimiter(CALLS_MAX)

    async def answer_publicly(request: GroupRequest) -> Struct:
        return await answer(replace(request, private_names=private_names))

    async def serve(stream: trio.SocketStream) -> None:
        gone = (UnreadableLine, trio.BrokenResourceError)
        async with stream:
            try:
                places.acquire_on_behalf_of_nowait(stream)
            except trio.WouldBlock:  # the other process holds its client's request meanwhile
                return
            try:
                with trio.move_on_after(CALL_S), suppress(*gone):
                    await _answer(stream, answer_publicly, limits, held)
            finally:
                places.release_on_behalf_of(stream)

    async with trio.open_nursery() as nursery:
        with listening(folder, SOCKET_NAME) as listener:
            await nursery.start(
                partial(trio.serve_listeners, serve, [listener], handler_nursery=nursery)
            )
            task_status.started()
            await trio.sleep_forever()


async def _answer(
    stream: trio.SocketStream,
    answer: Callable[[GroupRequest], Awaitable[Struct]],
    limits: Limits,
    held: HeldRequests,
) -> None:
    line = await _receive_line(stream)
    owner_call = json.loads(line)
    owner, held_bytes = QuotaKey(*owner_call["owner"]), 0

    def hold(count_bytes: int) -> None:
        nonlocal held_bytes
        held.take(owner, count_bytes)
        held_bytes += count_bytes

    try:
        if len(line) >= COUNTED_FROM_BYTES:
            hold(len(line))
        await _send(
            stream, await _reply_to(owner_call, stream, answer, limits, owner=owner, hold=hold)
        )
    except TooMuchHeld as error:
        log.warning("owner_call_refused", reason=str(error))
        await _send(stream, {"full": True})
    finally:
        if held_bytes:
            held.give_back(owner, held_bytes)


async def _reply_to(
    owner_call: dict[str, Any],
    stream: trio.SocketStream,
    answer: Callable[[GroupRequest], Awaitable[Struct]],
    limits: Limits,
    *,
    owner: QuotaKey,
    hold: Callable[[int], None],
) -> dict[str, Any]:
    """The last line of a call. Raises TooMuchHeld."""
    key, version = ApiKey(owner_call["api_key"]), owner_call["api_version"]
    upstream = RemoteUpstream(stream, owner_call)
    request = GroupRequest(
        header=RequestHeader(
            api_key=key, api_version=version, correlation_id=0, client_id=owner_call["client_id"]
        ),
        message=cast(Struct, _from_text(APIS[key].request, owner_call["message"], version)),
        client_host=owner_call["client_host"],
        owner=owner,
        upstream=cast(Upstream, upstream),
        node_id=owner_call["node_id"],
        grants=Grants(limits, OF_ONE_CLIENT_MAX, ShareRule()),
        at_s=trio.current_time(),
        hold=hold,
    )
    try:
        return {"answer": _to_text(await answer(request), version)}
    except BrokerLost:
        return {"lost": True}
    except OwnerAway:  # it has given the groups up, or is about to serve them
        return {"away": True}
    except (UnreadableLine, trio.BrokenResourceError, TooMuchHeld):
        raise
    except Exception:  # the boundary: a bug in one answer must not end the process
        log.exception("owner_call_failed", api=key.name)
        return {"failed": True}


class RemoteUpstream:
    """A client's connection to its broker, which another process has: what `Upstream` is to admin
    requests."""

    def __init__(self, stream: trio.SocketStream, owner_call: dict[str, Any]) -> None:
        self._stream = stream
        self.versions = {
            ApiKey(int(key)): tuple(span) for key, span in owner_call["versions"].items()
        }
        self.number = self.newest_number = 0
        self.member: tuple[str, str] | None = None
        self.introduction: ClientSoftware | None = None
        self.has_client = self.is_idle = True

    def version_for(self, key: int, version: int, since_version: int = 0) -> int:
        """See `Upstream`."""
        low, high = self.versions[ApiKey(key)]
        return int(max(low, min(high, max(version, since_version))))

    async def ask(self, message: Struct, version: int) -> Any:
        """See `Upstream`. Raises BrokerLost."""
        key = message.SCHEMA.api_key
        assert key is not None
        question = {"api_key": int(key), "version": version, "question": _to_text(message, version)}
        await _send(self._stream, question)
        reply = (await _receive(self._stream))["reply"]
        if reply is None:
            raise BrokerLost
        return _from_text(APIS[key].response, reply, version)

    async def ask_all(self, messages: Sequence[Struct], version: int) -> Sequence[Any]:
        """See `Upstream`. Raises BrokerLost."""
        return [await self.ask(message, version) for message in messages]

    ask_in_order = ask_all


async def _send(stream: trio.SocketStream, line: dict[str, Any]) -> None:
    await stream.send_all(json.dumps(line).encode() + b"\n")


async def _receive(stream: trio.SocketStream) -> Any:
    """Raises UnreadableLine, trio.BrokenResourceError."""
    return json.loads(await _receive_line(stream))


async def _receive_line(stream: trio.abc.ReceiveStream) -> bytes:
    """The next line with its end: nothing follows before it is answered. Raises UnreadableLine,
    trio.BrokenResourceError."""
    line = bytearray()
    while not line.endswith(b"\n"):
        chunk = await stream.receive_some(_CHUNK_BYTES)
        line += chunk
        if not chunk or len(line) > LINE_BYTES_MAX:
            raise UnreadableLine
    return bytes(line)


def _to_text(message: Struct, version: int) -> str:
    return base64.b64encode(encode(message, version)).decode()


def _from_text(kind: Any, text: str, version: int) -> Any:
    return decode(kind, base64.b64decode(text), version)
