"""What our Kafka clients for the state log have in common."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.cluster.broker_connection import Address

CLIENT_ID = "groupferry-state-log"

_silent = logging.getLogger(CLIENT_ID)
"""What goes wrong is raised where we ask; librdkafka need not tell the console as well."""
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


def client_config(upstream: Sequence[Address]) -> Mapping[str, Any]:
    """For any client of librdkafka."""
    return {
        "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in upstream),
        "client.id": CLIENT_ID,
        "logger": _silent,
        "broker.address.family": "any",
        # A topic that is deleted while we write is not to come back with settings of the broker's.
        "allow.auto.create.topics": False,
        "reconnect.backoff.max.ms": 1_000,
    }
