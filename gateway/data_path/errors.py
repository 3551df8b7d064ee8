"""Why a client connection ends early. Each message is one line for the log."""


class BadFrame(Exception):
    """A peer sent bytes that Kafka's protocol does not allow; its connection is closed."""


class RequestRefused(Exception):
    """A request for an api or a version that was not offered; a broker closes the connection."""

    def __init__(self, api_key: int, api_version: int) -> None:
        super().__init__(f"api key {api_key} version {api_version} is not offered")
        self.api_key = api_key
        self.api_version = api_version


class ListenError(Exception):
    """A port cannot be had, or the file of ports not be used. One line for the operator."""


class UpstreamLost(Exception):
    """The upstream connection ended before its answer came."""


class UpstreamAway(UpstreamLost):
    """There is no connection to the broker for now: it was asked nothing."""


class UpstreamChanged(Exception):
    """The broker is back and speaks other versions than its client was told."""
