"""Certificate files are checked, and read again when they have changed."""

import os
import ssl
from pathlib import Path

import pytest

from gateway.transport.certificates import (
    CertificateError,
    CertificateFiles,
    TlsContext,
    for_brokers,
    for_clients,
)
from tests.support.certificate_authority import CertificateAuthority


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    """Signs every certificate here."""
    return CertificateAuthority.in_folder(tmp_path / "authority")


def test_no_version_before_1_2_is_spoken(authority: CertificateAuthority) -> None:
    """This holds for clients and for brokers."""
    files = authority.issue("gateway", "gateway.example")
    for tls in (for_brokers(files), for_clients(files)):
        assert tls.current.minimum_version == ssl.TLSVersion.TLSv1_2
        assert tls.current.options & ssl.OP_NO_RENEGOTIATION


def test_brokers_must_prove_who_they_are(authority: CertificateAuthority) -> None:
    """The proof is also required if the name of the host is not checked."""
    tls = for_brokers(CertificateFiles(ca=authority.ca), check_host=False)
    assert tls.current.verify_mode == ssl.CERT_REQUIRED
    assert not tls.checks_host
    assert for_brokers(CertificateFiles()).checks_host


def test_clients_need_a_certificate_only_with_an_authority(authority: CertificateAuthority) -> None:
    """Without an authority any client may connect."""
    files = authority.issue("gateway", "gateway.example")
    assert for_clients(files).current.verify_mode == ssl.CERT_REQUIRED
    own = CertificateFiles(cert=files.cert, key=files.key)
    assert for_clients(own).current.verify_mode == ssl.CERT_NONE


def test_unusable_files_are_named(authority: CertificateAuthority, tmp_path: Path) -> None:
    """OpenSSL's own errors name no file."""
    good, other = authority.issue("a"), authority.issue("b")
    text, missing = tmp_path / "text", tmp_path / "missing"
    text.write_text("no certificate")

    def reason(**files: Path | None) -> str:
        with pytest.raises(CertificateError) as caught:
            for_brokers(CertificateFiles(**files))
        return str(caught.value)

    assert reason(ca=missing) == f"cannot read {missing}: No such file or directory"
    assert reason(ca=text) == f"{text} has no PEM certificates"
    assert reason(cert=missing) == f"cannot read {missing}: No such file or directory"
    assert reason(cert=good.cert, key=missing).startswith(f"cannot read {missing}")
    assert reason(cert=good.cert, key=other.key) == (
        f"the key in {other.key} is not that of the certificate in {good.cert}"
    )
    assert (
        reason(cert=text) == f"{text} and {text} are not a PEM certificate and its unencrypted key"
    )


def test_an_encrypted_key_is_refused_without_asking_the_terminal(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    """A service has no terminal."""
    from cryptography.hazmat.primitives import serialization

    files = authority.issue("a")
    assert files.key
    key = serialization.load_pem_private_key(files.key.read_bytes(), password=None)
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"phrase"),
        )
    )
    with pytest.raises(CertificateError, match="unencrypted key"):
        for_clients(files)


def test_changed_files_make_a_new_context(authority: CertificateAuthority) -> None:
    """Unchanged files do not, and open connections keep the former context."""
    tls = for_clients(authority.issue("gateway"))
    before = tls.current
    assert not tls.reload()
    _replace(authority)
    assert tls.reload()
    assert tls.current is not before
    assert not tls.reload()


def test_unusable_files_keep_the_former_context_and_complain_once(
    authority: CertificateAuthority,
) -> None:
    """The next change is tried again."""
    tls = for_clients(authority.issue("gateway"))
    before, key = tls.current, tls.files.key
    assert key
    key.unlink()
    with pytest.raises(CertificateError):
        tls.reload()
    assert tls.current is before
    assert not tls.reload()
    _replace(authority)
    assert _reload(tls) is not before


def _replace(authority: CertificateAuthority) -> None:
    files = authority.issue("gateway")
    for path in files:
        os.utime(path, ns=(1, 1))  # two writes may share a tick of the file system's clock


def _reload(tls: TlsContext) -> ssl.SSLContext:
    assert tls.reload()
    return tls.current
