"""The states of a client connection and of its upstream connection, with their legal moves."""

from enum import StrEnum

from gateway.moves import Moves


class ClientState(StrEnum):
    """What a client connection does next."""

    RESTING = "Resting"
    """Waits for a request, no byte of which has arrived."""
    SERVING = "Serving"
    """A request, or its beginning, has arrived."""
    DRAINING = "Draining"
    """Serving, but reads no request after this one."""
    FINISHING = "Finishing"
    """Reads nothing more. The outstanding answers leave, unless the connection has failed."""
    ABANDONED = "Abandoned"
    """The client left a request incomplete for too long. It gets no further answer."""
    CLOSED = "Closed"
    """The sockets are closed."""


CLIENT_MOVES: Moves[ClientState] = {
    ClientState.SERVING: frozenset(
        {
            ClientState.RESTING,
            ClientState.DRAINING,
            ClientState.FINISHING,
            ClientState.ABANDONED,
        }
    ),
    ClientState.RESTING: frozenset({ClientState.SERVING, ClientState.FINISHING}),
    ClientState.DRAINING: frozenset({ClientState.FINISHING, ClientState.ABANDONED}),
    ClientState.FINISHING: frozenset({ClientState.CLOSED}),
    ClientState.ABANDONED: frozenset({ClientState.CLOSED}),
    ClientState.CLOSED: frozenset(),
}


class UpstreamState(StrEnum):
    """Whether a connection to a broker can be used, and what its end means for the client."""

    OPEN = "Open"
    """Requests go out, and answers come in."""
    ENDED = "Ended"
    """The connection ended, or is about to, and the client was owed nothing. The client stays, and
    its next request opens another connection."""
    FAILED = "Failed"
    """Ended, but the client was owed something: an answer, or the failure of a request without
    an answer, which a broker signals by closing. The client's connection closes as well."""
    CLOSED = "Closed"
    """The socket is closed."""


UPSTREAM_MOVES: Moves[UpstreamState] = {
    UpstreamState.OPEN: frozenset({UpstreamState.ENDED, UpstreamState.FAILED}),
    UpstreamState.ENDED: frozenset({UpstreamState.CLOSED}),
    UpstreamState.FAILED: frozenset({UpstreamState.CLOSED}),
    UpstreamState.CLOSED: frozenset(),
}
