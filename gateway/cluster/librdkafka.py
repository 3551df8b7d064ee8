"""Common configuration of the gateway's own librdkafka clients."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.broker_connection import Address

_silent = logging.getLogger(__name__)
"""Errors are raised at the call, so librdkafka need not print them as well."""
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


def client_config(
    upstream: Sequence[Address], client_id: str, access: Access = PLAIN_ACCESS
) -> Mapping[str, Any]:
    """The configuration of a producer, consumer or admin client."""
    return {
        "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in upstream),
        "client.id": client_id,
        "logger": _silent,
        "broker.address.family": "any",
        # A topic that is deleted while we write must not be recreated with default settings.
        "allow.auto.create.topics": False,
        "reconnect.backoff.max.ms": 1_000,
        **_of_access(access),
    }


def _of_access(access: Access) -> Mapping[str, Any]:
    if access.tls is None:
        return {}
    files = access.tls.files
    named = {
        "ssl.ca.location": files.ca,
        "ssl.certificate.location": files.cert,
        "ssl.key.location": files.key or files.cert,
    }
    return {
        "security.protocol": "ssl",
        "ssl.endpoint.identification.algorithm": "https" if access.tls.checks_host else "none",
        **{name: str(path) for name, path in named.items() if path is not None},
    }
