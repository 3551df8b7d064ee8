"""What our own clients of librdkafka have in common."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.cluster.broker_connection import Address

_silent = logging.getLogger(__name__)
"""What goes wrong is raised where we ask; librdkafka need not tell the console as well."""
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


def client_config(upstream: Sequence[Address], client_id: str) -> Mapping[str, Any]:
    """For a client of any kind."""
    return {
        "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in upstream),
        "client.id": client_id,
        "logger": _silent,
        "broker.address.family": "any",
        # A topic that is deleted while we write is not to come back with settings of the broker's.
        "allow.auto.create.topics": False,
        "reconnect.backoff.max.ms": 1_000,
    }
