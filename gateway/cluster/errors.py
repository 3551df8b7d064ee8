"""What can go wrong with the upstream cluster. Each message is one line, fit for whoever runs the
gateway: it may name a broker's address, so it goes to the log and into no answer to a client."""


class UpstreamError(Exception):
    """The cluster could not be asked, or its answer was no use. Asking again later may help."""


class UpstreamRefused(UpstreamError):
    """The cluster wants something that the gateway does not have; asking again will not help."""


class UpstreamClosed(UpstreamError):
    """A broker closed the connection instead of answering."""
