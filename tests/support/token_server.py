"""An OAuth 2.0 authorization server on the loopback, for client credentials."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gateway.transport.certificates import CertificateFiles


def unsigned_token(user: str, lifetime_s: float) -> str:
    """A token as the broker's validator for tests accepts it."""
    now_s = int(time.time())
    parts = ({"alg": "none"}, {"sub": user, "iat": now_s, "exp": now_s + lifetime_s})
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts]
    return b".".join([*texts, b""]).decode()


@dataclass(slots=True)
class TokenServer:
    """What it answers, and what it was asked."""

    status: int = 200
    lifetime_s: float = 60
    body: bytes | None = None
    """The answer, by default a token for `user`."""
    user: str = "gateway"
    url: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """The Authorization header and the form of each request."""
    issued: list[str] = field(default_factory=list)
    """The tokens it has given out."""

    def answer(self) -> bytes:
        if self.body is not None:
            return self.body
        token = unsigned_token(self.user, self.lifetime_s)
        self.issued.append(token)
        grant = {"access_token": token, "expires_in": self.lifetime_s, "token_type": "bearer"}
        return json.dumps(grant).encode()


@contextmanager
def token_server(files: CertificateFiles | None = None) -> Iterator[TokenServer]:
    """Run it in a thread, with TLS if it has a certificate."""
    state = TokenServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            form = self.rfile.read(size).decode()
            state.asked.append((self.headers["Authorization"], form))
            body = state.answer()
            self.send_response(state.status)
            self.send_header("Location", state.url)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if files is not None:
            assert files.cert is not None
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(files.cert, files.key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "http" if files is None else "https"
        state.url = f"{scheme}://127.0.0.1:{server.server_port}/token"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
