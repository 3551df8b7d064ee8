"""What it is that a client says instead of Kafka's protocol, told by its first bytes. Pure."""

_TLS_HANDSHAKE = b"\x16\x03"
_HTTP_METHODS = (b"GET ", b"PUT ", b"HEAD", b"POST", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC")


def what_instead(start: bytes) -> str | None:
    """A line for the operator about the first four bytes; None if they may be a request's size."""
    if start.startswith(_TLS_HANDSHAKE):
        return "a TLS handshake: this port speaks plain text, set security.protocol=PLAINTEXT"
    if start[:4] in _HTTP_METHODS or start == b"PRI ":
        return "an HTTP request: this port speaks Kafka's protocol"
    if start == b"SSH-":
        return "an SSH banner: this port speaks Kafka's protocol"
    return None
