"""What TLS with clients costs, compared with HAProxy, which terminates it in the same way.

    .venv/bin/python tests/bench/bench_tls.py [--short] [--keep]

The load generator has no TLS. It sends plain text to an HAProxy that encrypts for one of the
relays, so both relays have the same client with the same cipher. Processor time is that of the
relay alone.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import trio

from gateway.cluster.access import Access
from gateway.transport import certificates
from gateway.transport.certificates import CertificateFiles
from tests.bench.bench_relay import (
    BULK_CONNECTIONS,
    BYTES,
    FETCHED,
    KIB,
    MIB,
    PRODUCED,
    ROUND_TRIPS,
    broker,
    fetch,
    haproxy,
    listener,
    per_gb,
    produce,
    size_in_words,
)
from tests.bench.comparison import SUBJECT, Arm, Form, Results, compare, main_of
from tests.bench.processes import (
    PeerMissing,
    Server,
    allow_many_connections,
    compile_native,
    enter_private_network,
    gateway,
)
from tests.support.certificate_authority import CertificateAuthority
from tests.support.ports import HOST

SIZES = (64 * KIB, MIB)
CONNECTIONS = 100


@contextmanager
def haproxy_ending_tls(behind: Server, files: CertificateFiles) -> Iterator[Server]:
    """The peer. Certificate and key have to be in one file."""
    assert files.cert
    assert files.key
    together = files.cert.with_suffix(".haproxy.pem")
    together.write_bytes(files.cert.read_bytes() + files.key.read_bytes())
    with haproxy(behind, bind=f"ssl crt {together}") as server:
        yield server


@contextmanager
def groupferry_ending_tls(behind: Server, files: CertificateFiles) -> Iterator[Server]:
    """The gateway's listener of the broker."""
    flags = (f"--tls-cert={files.cert}", f"--tls-key={files.key}")
    access = Access(tls=certificates.for_brokers(replace(files, cert=None, key=None)))
    with gateway(f"{HOST}:{behind.port}", *flags) as server:
        yield Server(port=trio.run(listener, server.port, access), pid=server.pid)


RELAYS = {"HAProxy": haproxy_ending_tls, SUBJECT: groupferry_ending_tls}


def measure(results: Results, form: Form) -> None:
    """All rows."""
    enter_private_network()
    allow_many_connections()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groupferry-bench-")))
        files = CertificateAuthority.in_folder(folder).issue("relay", HOST)
        relays: dict[str, tuple[Server, int]] = {}
        try:
            compile_native("load")
            behind = stack.enter_context(broker())
            for name, start in RELAYS.items():
                relay = stack.enter_context(start(behind, files))
                front = stack.enter_context(haproxy(relay, server=f"ssl ca-file {files.ca}"))
                relays[name] = relay, front.port
        except PeerMissing as reason:
            results.skip(f"{reason}")
            return
        rows = [(f"Fetch {size_in_words(s)} over TLS", fetch(v), s) for v, s in FETCHED.items()]
        rows += [
            (f"Produce {size_in_words(size)} over TLS", produce(size), size) for size in PRODUCED
        ]
        for row, requests, size in rows:
            is_bulk = size in SIZES
            compare(
                results,
                row,
                [
                    Arm(name=name, server=relay, requests=requests, port=port)
                    for name, (relay, port) in relays.items()
                ],
                form,
                connections=BULK_CONNECTIONS if is_bulk else CONNECTIONS,
                count=min(BYTES // size, ROUND_TRIPS),
                figures_of=per_gb(size),
            )


if __name__ == "__main__":
    main_of("tls", measure)
