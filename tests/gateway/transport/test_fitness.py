"""Certificates that clients refuse although they trust them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.transport.certificates import CertificateFiles
from gateway.transport.fitness import why_unfit
from tests.support.certificate_authority import CertificateAuthority


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority.in_folder(tmp_path / "authority")


@pytest.mark.parametrize("host", ["gateway.example", "broker-1.gateway.example", "127.0.0.1"])
def test_a_certificate_fits_the_hosts_that_it_names(
    authority: CertificateAuthority, host: str
) -> None:
    files = authority.issue("one", "gateway.example", "*.gateway.example", "127.0.0.1")
    assert why_unfit(files, host) is None


@pytest.mark.parametrize("host", ["other.example", "127.0.0.2"])
def test_a_certificate_for_other_hosts_is_unfit(authority: CertificateAuthority, host: str) -> None:
    reason = why_unfit(authority.issue("one", "gateway.example", "127.0.0.1"), host)
    assert reason is not None
    assert host in reason


def test_an_expired_certificate_is_reported(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    over = datetime.now(UTC) - timedelta(days=1)
    issued = authority.root.issue_cert("gateway.example", not_after=over)
    files = CertificateFiles(cert=tmp_path / "over.pem")
    assert files.cert is not None
    issued.private_key_and_cert_chain_pem.write_to_path(files.cert)
    assert why_unfit(files, "gateway.example") == "certificate has expired"
