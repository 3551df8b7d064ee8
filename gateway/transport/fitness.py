"""Whether a certificate is fit to be shown to clients, found out in a handshake in memory."""

import ssl

from gateway.transport.certificates import CertificateFiles

FLIGHTS = 3
"""How often each side may speak until the client has seen the certificate."""


def why_unfit(files: CertificateFiles, host: str) -> str | None:
    """Why a client refuses the certificate for this host although it trusts it: it names other
    hosts, or its time is over. None if it does not."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it need not be an authority's
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        assert files.cert is not None
        server_context.load_cert_chain(files.cert, files.key, password=lambda: b"")
        client_context.load_verify_locations(files.cert)
        client = client_context.wrap_bio(to_client, to_server, server_hostname=host)
        server = server_context.wrap_bio(to_server, to_client, server_side=True)
        for side in (client, server) * FLIGHTS:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    except ssl.SSLCertVerificationError as error:
        return error.verify_message.rstrip(".")
    except (ssl.SSLError, OSError):  # the files have just changed again
        return None
    return None
