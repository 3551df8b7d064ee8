"""Recognises other protocols by their first bytes. Pure."""

_TLS_HANDSHAKE = b"\x16\x03"
_HTTP_METHODS = (b"GET ", b"PUT ", b"HEAD", b"POST", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC")


def what_instead(start: bytes) -> str | None:
    """Name the protocol behind the first four bytes; None if they may be the size of a request."""
    if start.startswith(_TLS_HANDSHAKE):
        return (
            "a TLS handshake: this port speaks plain text, set security.protocol=PLAINTEXT,"
            " or SASL_PLAINTEXT if the cluster wants SASL"
        )
    if start[:4] in _HTTP_METHODS or start == b"PRI ":
        return "an HTTP request: this port speaks Kafka's protocol"
    if start == b"SSH-":
        return "an SSH banner: this port speaks Kafka's protocol"
    return None
