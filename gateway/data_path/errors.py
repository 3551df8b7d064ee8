"""The errors that close a client connection. Each message is one line for the log."""


class BadFrame(Exception):
    """A client sent bytes that violate Kafka's protocol. Its connection is closed."""


class BadAnswer(Exception):
    """A broker sent what violates Kafka's protocol. The connection of the client that needs the
    answer is closed."""


class RequestRefused(Exception):
    """The client used an api or version that was not offered. As in Kafka, its connection is
    closed."""

    def __init__(self, api_key: int, api_version: int, reason: str) -> None:
        super().__init__(f"api key {api_key} version {api_version} is refused: {reason}")
        self.api_key = api_key
        self.api_version = api_version
        self.reason = reason


class NotAuthenticated(Exception):
    """The client must authenticate before it sends such a request. Its connection is closed."""


class TooManyConnections(Exception):
    """A limit on connections is reached. The client's connection is closed."""


class TooMuchHeld(Exception):
    """Long requests take as much memory as they may. The client's connection is closed."""


class ListenError(Exception):
    """The gateway cannot listen on a port, has no port for yet another broker, or cannot use its
    port file. One line for the operator."""


class ConnectionAbandoned(Exception):
    """The client has moved to another connection. This one is closed."""


class BrokerLost(Exception):
    """The upstream connection ended before the answer came."""


class UpstreamAway(BrokerLost):
    """The broker cannot be reached. The request was not sent."""


class UpstreamChanged(Exception):
    """The broker is back with other api versions than the client was told, or without the client's
    authentication."""
