"""The access that the settings describe."""

from pathlib import Path

import pytest

from gateway.cluster.access import PLAIN_ACCESS
from gateway.security import security_of
from gateway.settings import SettingsError
from gateway.settings_sources import load
from tests.support.certificate_authority import CertificateAuthority


def test_the_default_is_plain_text() -> None:
    """Nothing has to be given."""
    security = security_of(load({"upstream": "k:1"}))
    assert (security.own, security.client_access) == (PLAIN_ACCESS, PLAIN_ACCESS)
    assert security.certificates == ()


def test_clients_do_not_show_the_gateways_certificate(tmp_path: Path) -> None:
    """The cluster would take each of them for the gateway."""
    files = CertificateAuthority.in_folder(tmp_path).issue("gateway")
    security = security_of(
        load(
            {
                "upstream": "k:1",
                "upstream_security_protocol": "SSL",
                "upstream_tls_ca": f"{files.ca}",
                "upstream_tls_cert": f"{files.cert}",
                "upstream_tls_key": f"{files.key}",
            }
        )
    )
    own, client_access = security.own.tls, security.client_access.tls
    assert own
    assert own.files == files
    assert client_access
    assert list(client_access.files) == [files.ca]
    assert security.certificates == (own, client_access)


def test_other_gateways_are_met_with_the_own_user_and_with_tls_if_clients_are(
    tmp_path: Path,
) -> None:
    """Whether the cluster wants TLS or not: their listeners are like those of this one."""
    files = CertificateAuthority.in_folder(tmp_path).issue("gateway", "g.example")
    listening = {"tls_cert": f"{files.cert}", "tls_key": f"{files.key}", "advertise": "g.example"}
    plain = security_of(load({"upstream": "k:1", **listening}))
    assert plain.own.tls is None
    assert plain.to_gateways.tls is not None
    assert plain.to_gateways.tls in plain.certificates
    to_cluster = {"upstream": "k:1", "upstream_security_protocol": "ssl"}
    both = security_of(load({**to_cluster, **listening}))
    assert both.to_gateways == both.own
    assert security_of(load(to_cluster)).to_gateways == PLAIN_ACCESS


def test_both_share_what_has_no_certificate_of_its_own() -> None:
    """Only what the authorities are."""
    security = security_of(load({"upstream": "k:1", "upstream_security_protocol": "ssl"}))
    assert len(security.certificates) == 1


def test_a_missing_file_ends_the_start_in_one_line(tmp_path: Path) -> None:
    """The line has the file."""
    missing = tmp_path / "missing"
    settings = load(
        {
            "upstream": "k:1",
            "upstream_security_protocol": "ssl",
            "upstream_tls_ca": f"{missing}",
        }
    )
    with pytest.raises(SettingsError) as caught:
        security_of(settings)
    assert caught.value.lines == [f"cannot read {missing}: No such file or directory"]
