"""TLS contexts made from certificate files, and made again when the files have changed."""

import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway.transport.tls import record_asked_host

_Stamp = tuple[int, int, int]


class CertificateError(Exception):
    """A certificate file cannot be used. One line for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFiles:
    """PEM files."""

    ca: Path | None = None
    """The certificates that the peer's certificate must lead to."""
    cert: Path | None = None
    """Our certificate, and those that lead from it to one that the peer knows."""
    key: Path | None = None
    """The private key of `cert`, without a pass phrase. None if the file `cert` has it too."""

    def __iter__(self) -> Iterator[Path]:
        """The files that are given."""
        return (path for path in (self.ca, self.cert, self.key) if path is not None)


class TlsContext:
    """The current context for new connections. Open connections keep theirs."""

    def __init__(
        self,
        files: CertificateFiles,
        make: Callable[[CertificateFiles], ssl.SSLContext],
        hosts: tuple[str, ...] = (),
    ) -> None:
        """Raises CertificateError."""
        self.files = files
        self.hosts = hosts
        """The names by which clients reach us."""
        self._make = make
        self._stamps = self._look()
        self.current = make(files)

    @property
    def checks_host(self) -> bool:
        """Whether the peer's certificate must name its host."""
        return self.current.check_hostname

    def reload(self) -> bool:
        """Read the files again if they have changed. Returns whether they have.

        Raises CertificateError, once for each change, and keeps the former context.
        """
        stamps = self._look()
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        self.current = self._make(self.files)
        return True

    def _look(self) -> tuple[_Stamp | None, ...]:
        return tuple(_stamp(path) for path in self.files)


def for_brokers(files: CertificateFiles, *, check_host: bool = True) -> TlsContext:
    """Contexts for connections to brokers, whose certificates must be valid. By default the system
    says which authorities are trusted.

    Raises CertificateError.
    """

    def make(files: CertificateFiles) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = check_host
        if files.ca is None:
            context.load_default_certs()
        return _with_files(context, files)

    return TlsContext(files, make)


def for_clients(files: CertificateFiles, hosts: tuple[str, ...] = ()) -> TlsContext:
    """Contexts for connections from clients, which know us by these names. With a `ca`, a client
    must show a certificate.

    Raises CertificateError.
    """

    def make(files: CertificateFiles) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sni_callback = record_asked_host
        if files.ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        return _with_files(context, files)

    return TlsContext(files, make, hosts)


def _with_files(context: ssl.SSLContext, files: CertificateFiles) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A handshake in the middle would cost as much as a new connection, and stay unlimited.
    context.options |= ssl.OP_NO_RENEGOTIATION
    if files.ca is not None:
        try:
            context.load_verify_locations(files.ca)
        except ssl.SSLError:
            raise CertificateError(f"{files.ca} has no PEM certificates") from None
        except OSError as error:
            raise CertificateError(f"cannot read {files.ca}: {error.strerror}") from None
    if files.cert is not None:
        _load_own(context, files.cert, files.key)
    return context


def _load_own(context: ssl.SSLContext, cert: Path, key: Path | None) -> None:
    for path in (cert, key):
        try:
            if path is not None:
                path.open("rb").close()  # the error of OpenSSL does not say which file
        except OSError as error:
            raise CertificateError(f"cannot read {path}: {error.strerror}") from None
    try:
        context.load_cert_chain(cert, key, password=lambda: b"")  # never ask the terminal
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            reason = f"the key in {key or cert} is not that of the certificate in {cert}"
        else:
            reason = f"{cert} and {key or cert} are not a PEM certificate and its unencrypted key"
        raise CertificateError(reason) from None


def _stamp(path: Path) -> _Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None  # reading it will say why
    return status.st_mtime_ns, status.st_ino, status.st_size
