"""Errors of the upstream cluster. Each message is one line for the operator. It may contain a
broker's address, so it belongs in the log and never in an answer to a client."""

LOOK_AT_UPSTREAM = "look at the cluster, and at --upstream"
"""What to do about an UpstreamError that ends a command."""


class UpstreamError(Exception):
    """The cluster did not answer, or not usefully. A retry may help."""


class UpstreamRefused(UpstreamError):
    """The cluster requires something that the gateway does not support. A retry will not help."""


class UpstreamClosed(UpstreamError):
    """A broker closed the connection instead of answering."""
