"""Fetches bearer tokens for the gateway itself, by OAuth 2.0 client credentials (RFC 6749 4.4)."""

import base64
import json
import ssl
import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from gateway.cluster.errors import UpstreamRefused
from gateway.cluster.secret import Secret
from gateway.transport.certificates import CertificateError

TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 1024 * 1024
USED_SHARE = 0.8
"""The used share of a token's lifetime. A connection that begins later gets a new one."""
LIFETIME_S = 60.0
"""The lifetime of a token if the server does not state it."""


class _NoRedirects(HTTPRedirectHandler):
    """The secret is for one server."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse every redirect, which then raises HTTPError."""


@dataclass(slots=True, kw_only=True)
class BearerTokens:
    """The tokens of one client. Blocks; several threads may use it."""

    url: str
    """The authorization server's token endpoint."""
    client_id: str
    secret: Secret
    scope: str | None = None
    ca: Path | None = None
    """The authorities to trust, read for each new token; None trusts the system's."""
    _token: str = field(default="", repr=False)
    _until_s: float = 0.0
    _fetching: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def check_ca(self) -> None:
        """Raises CertificateError if the file with the authorities cannot be used."""
        try:
            self._trusting()
        except (OSError, ssl.SSLError) as error:
            reason = "it has no certificate" if isinstance(error, ssl.SSLError) else error.strerror
            raise CertificateError(f"upstream_sasl_token_ca: {self.ca}: {reason}") from None

    def _trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca)

    def get(self) -> str:
        """A token that is valid for a while. Raises UpstreamRefused."""
        with self._fetching:
            begun_s = time.monotonic()
            if begun_s >= self._until_s:
                self._token, lifetime_s = self._fetch_token()
                self._until_s = begun_s + USED_SHARE * lifetime_s
            return self._token

    def _fetch_token(self) -> tuple[str, float]:
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        user = f"{quote(self.client_id, safe='')}:{quote(self.secret.read(), safe='')}"
        request = Request(  # noqa: S310  # the settings check the scheme
            self.url,
            data=urlencode(form).encode(),
            headers={
                "Authorization": f"Basic {base64.b64encode(user.encode()).decode()}",
                "Accept": "application/json",
            },
        )
        try:
            opener = build_opener(_NoRedirects, HTTPSHandler(context=self._trusting()))
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                response = json.loads(answer.read(ANSWER_BYTES_MAX))
            return str(response["access_token"]), float(response.get("expires_in", LIFETIME_S))
        except HTTPError as error:
            error.close()
            raise UpstreamRefused(f"no token from {self.url}: HTTP status {error.code}") from None
        except (OSError, HTTPException) as error:
            raise UpstreamRefused(f"no token from {self.url}: {error}") from None
        except (ValueError, TypeError, LookupError, AttributeError):  # it may have the token in it
            raise UpstreamRefused(f"no token from {self.url}: the answer has none") from None
