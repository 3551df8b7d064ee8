"""What the data path is told: where to listen, what to advertise, and every limit."""

from dataclasses import dataclass, field
from pathlib import Path

BROKER_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Named limits of the data path."""

    max_connections: int = 10_000
    """Client connections, over all listeners."""
    max_connections_per_address: int = 5_000
    """Of them, those of one client address: nobody takes all the room."""
    max_brokers: int = 1_000
    """Listeners, one per broker."""
    max_request_bytes: int = 100 * 1024 * 1024
    """The longest request frame; Kafka's own default (socket.request.max.bytes)."""
    max_held_request_bytes: int = 4 * 1024 * 1024
    """The longest request that is read whole: those of groups, and Metadata."""
    max_request_entries: int = 50_000
    """Entries of such a request, over all its lists; each costs time, however few its bytes."""
    max_held_answer_bytes: int = 64 * 1024 * 1024
    """The longest upstream answer that is read whole to be rewritten."""
    max_pipelined: int = 256
    """Requests of one connection that the upstream has not answered yet."""
    idle_timeout_s: float = 600.0
    """How long a client may say nothing while nothing is owed to it; Kafka's own default
    (connections.max.idle.ms)."""
    half_sent_timeout_s: float = 30.0
    """How long a client may say nothing in the middle of a request; `idle_timeout_s` is how long a
    request may take to arrive, and how long a client may not take what is sent to it."""
    broker_timeout_s: float = BROKER_TIMEOUT_S
    """How long a broker may take to be connected to, and to answer what members ask: their next
    heartbeats wait behind it, and a session may be as short as 6 s. A process that hangs still
    accepts connections, so a broker that takes longer to be connected to counts as away."""
    linger_timeout_s: float = 5.0
    """How long answers on their way keep a connection open whose client sends no more, and how long
    a request may be half sent once the gateway stops."""
    drain_timeout_s: float = 30.0
    """How long requests in flight may take to be answered once the gateway stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPathConfig:
    """Settings of the data path."""

    listen_host: str = "127.0.0.1"
    listen_port: int
    """The bootstrap port; brokers take the next ones. 0: every port is the system's choice."""
    advertised_host: str
    """The host that clients are told to connect to, for every broker."""
    state_folder: Path | None = None
    """Where the brokers' ports are kept; None: they are not."""
    limits: Limits = field(default_factory=Limits)
