"""Common configuration of the gateway's own librdkafka clients."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.broker_connection import Address
from gateway.cluster.sasl import Credentials
from gateway.transport.certificates import TlsContext

_silent = logging.getLogger(__name__)
"""Errors are raised at the call, so librdkafka need not print them as well."""
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


def client_config(
    upstream: Sequence[Address], client_id: str, access: Access = PLAIN_ACCESS
) -> Mapping[str, Any]:
    """The configuration of a producer, consumer or admin client. It has the password in it.

    Raises UpstreamRefused if the password cannot be read.
    """
    return {
        "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in upstream),
        "client.id": client_id,
        "logger": _silent,
        "broker.address.family": "any",
        # A topic that is deleted while we write must not be recreated with default settings.
        "allow.auto.create.topics": False,
        "reconnect.backoff.max.ms": 1_000,
        **security_config(access),
    }


def security_config(access: Access) -> Mapping[str, str]:
    """The part of the configuration that protects its connections. It has the password in it.

    Raises UpstreamRefused if the password cannot be read.
    """
    kinds = ("plaintext", "ssl") if access.credentials is None else ("sasl_plaintext", "sasl_ssl")
    return {
        "security.protocol": kinds[access.tls is not None],
        **(_tls_settings(access.tls) if access.tls else {}),
        **(_credential_settings(access.credentials) if access.credentials else {}),
    }


def _tls_settings(tls: TlsContext) -> Mapping[str, str]:
    named = {
        "ssl.ca.location": tls.files.ca,
        "ssl.certificate.location": tls.files.cert,
        "ssl.key.location": tls.files.key or tls.files.cert,
    }
    return {
        "ssl.endpoint.identification.algorithm": "https" if tls.checks_host else "none",
        **{name: str(path) for name, path in named.items() if path is not None},
    }


def _credential_settings(credentials: Credentials) -> Mapping[str, str]:
    if (tokens := credentials.tokens) is not None:
        return {
            "sasl.mechanism": credentials.mechanism,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": tokens.url,
            "sasl.oauthbearer.client.id": tokens.client_id,
            "sasl.oauthbearer.client.secret": tokens.secret.read(),
            **({"sasl.oauthbearer.scope": tokens.scope} if tokens.scope else {}),
            **({"https.ca.location": f"{tokens.ca}"} if tokens.ca else {}),
        }
    return {
        "sasl.mechanism": credentials.mechanism,
        "sasl.username": credentials.username,
        "sasl.password": credentials.password.read(),
    }
