"""The settings of the data path: addresses and limits."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import trio

from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.data_path.broker_names import BrokerNames
from gateway.fleet.member import FleetMember
from gateway.fleet.seated_member import AnnouncePorts
from gateway.quotas.shares import ShareRule
from gateway.transport.certificates import TlsContext

BROKER_TIMEOUT_S = 3.0
PERMISSION_LIFETIME_S = 120.0


@dataclass(slots=True, kw_only=True)
class Limits:
    """Named limits of the data path. Those that are settings may change, and count immediately."""

    max_connections: int = 10_000
    """Client connections over all listeners."""
    max_connections_per_address: int | None = None
    """Connections of one client address, so that no client takes all of them; None as in
    `ShareRule`."""
    max_connections_per_principal: int | None = None
    """Connections of one principal, which do not count towards their addresses; None as in
    `ShareRule`."""
    max_handshakes_per_address: int = 250
    """Handshakes with one client address at a time, of TLS and SASL. Each takes CPU and memory, and
    SASL a connection to the broker, before the client has shown who it is."""
    handshake_timeout_s: float = 10.0
    """How long a client's TLS handshake may take, and how long it may then take to authenticate."""
    max_brokers: int = 1_000
    """Listeners for brokers, one each."""
    max_request_bytes: int = 100 * 1024 * 1024
    """The longest request frame; Kafka's default (socket.request.max.bytes)."""
    max_held_request_bytes: int = 4 * 1024 * 1024
    """The longest request that is held in memory: group requests and Metadata."""
    max_held_requests_bytes: int = 512 * 1024 * 1024
    """What the long ones among them take together, and long answers; an owner has its share."""
    max_request_entries: int = 50_000
    """Entries over all lists of a held request; each costs time, however few bytes it has."""
    max_held_answer_bytes: int = 64 * 1024 * 1024
    """The longest upstream answer that is held in memory to be rewritten."""
    max_pipelined: int = 256
    """Requests of one connection without an upstream answer."""
    idle_timeout_s: float = 600.0
    """How long a client that is owed no answer may be silent; Kafka's default
    (connections.max.idle.ms). Also limits the arrival of a request, and how long a client may not
    read its answers."""
    half_sent_timeout_s: float = 30.0
    """How long a client may be silent in the middle of a request."""
    broker_timeout_s: float = BROKER_TIMEOUT_S
    """How long a broker may take to accept a connection, and to answer requests that members wait
    for. Their next heartbeats queue behind, and a session may be as short as 6 s. A hanging process
    still accepts connections, so a broker that exceeds the limit while connecting counts as
    away."""
    permission_lifetime_s: float = PERMISSION_LIFETIME_S
    """How long a permission counts after the cluster has confirmed it."""
    linger_timeout_s: float = 5.0
    """How long a connection stays open after its client has stopped sending, for what its broker
    owes and for requests that count without the client; and for a half-sent request after the
    gateway stops."""
    drain_timeout_s: float = 30.0
    """How long the gateway waits for outstanding answers when it stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPathConfig:
    """Settings of the data path."""

    listen_host: str = "127.0.0.1"
    listen_port: int
    """The bootstrap port; brokers take the ports after it. With 0 the system chooses every port."""
    advertised_host: str
    """The host in every address that clients are told."""
    broker_names: BrokerNames | None = None
    """Each broker's host name at the bootstrap port, which then serves all brokers; needs `tls`.
    None opens a port per broker."""
    state_folder: Path | None = None
    """Stores the brokers' ports; None stores nothing."""
    member: FleetMember | None = None
    """The process's view of its fleet, whose processes share `state_folder` and all ports but those
    of their coordinator nodes; None if it is alone."""
    announce_ports: AnnouncePorts | None = None
    """Tells the gateways of a fleet on several machines about the ports of this one."""
    leaving: trio.Event | None = None
    """Set when the process leaves new clients to the others."""
    other_ports: Collection[int] = ()
    """Ports that the processes of a fleet need for something else; not all are open yet."""
    tls: TlsContext | None = None
    """The TLS of the listeners; None listens in plain text."""
    to_brokers: Access = PLAIN_ACCESS
    """The access of the clients' own connections to the brokers."""
    clients_authenticate: bool = False
    """Whether the brokers want SASL of clients."""
    client_side_api_key: int | None = None
    """The key of ConsumerGroupPrepareAssignment; ConsumerGroupInstallAssignment has the one after
    it. None offers neither."""
    limits: Limits = field(default_factory=Limits)
    names: ShareRule = field(default_factory=ShareRule)
    """How many names of one client are remembered."""
