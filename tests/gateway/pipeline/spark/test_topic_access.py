"""What Spark's Kafka source is told about a protected cluster."""

from pathlib import Path

import pytest

from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.bearer_tokens import BearerTokens
from gateway.cluster.errors import UpstreamRefused
from gateway.cluster.sasl import Credentials
from gateway.cluster.secret import Secret
from gateway.pipeline.spark.topic import JAAS_VARIABLE, secret_variables, source_options
from gateway.transport import certificates
from tests.support.certificate_authority import CertificateAuthority

SECRET = "a secret"


def test_plain_text_needs_no_secret() -> None:
    """Nor a provider of secrets."""
    assert source_options(PLAIN_ACCESS) == {"kafka.security.protocol": "PLAINTEXT"}
    assert secret_variables(PLAIN_ACCESS) == {}


def test_a_certificate_and_its_key_may_share_a_file(tmp_path: Path) -> None:
    """Options name the files by their full path, since executors have folders of their own."""
    files = CertificateAuthority.in_folder(tmp_path).issue("reader")
    options = source_options(Access(tls=certificates.for_brokers(files, check_host=False)))
    assert options["kafka.security.protocol"] == "SSL"
    assert options["kafka.ssl.keystore.key"] == f"${{directory:{tmp_path}:reader.key}}"
    assert (
        options["kafka.ssl.keystore.certificate.chain"] == f"${{directory:{tmp_path}:reader.pem}}"
    )
    assert options["kafka.ssl.endpoint.identification.algorithm"] == ""


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")],
)
def test_a_password_is_in_the_environment_only(mechanism: str, module: str) -> None:
    """With the characters escaped that would end it."""
    password = Secret('a "quoted" \\ password\n')
    credentials = Credentials(mechanism=mechanism, username="u", password=password)  # type: ignore[arg-type]
    access = Access(credentials=credentials)
    options = source_options(access)
    assert options["kafka.security.protocol"] == "SASL_PLAINTEXT"
    assert options["kafka.sasl.mechanism"] == mechanism
    assert options["kafka.sasl.jaas.config"] == f"${{env:{JAAS_VARIABLE}}}"
    assert secret_variables(access) == {
        JAAS_VARIABLE: f"org.apache.kafka.common.security.{module} required"
        ' username="u" password="a \\"quoted\\" \\\\ password\\n";'
    }


def test_the_secret_of_a_token_client_is_in_the_environment_only(tmp_path: Path) -> None:
    """The endpoint is an option, and its authorities belong to the login."""
    ca = CertificateAuthority.in_folder(tmp_path).ca
    secret = Secret(SECRET)
    tokens = BearerTokens(
        url="https://tokens.example/token", client_id="c", secret=secret, scope="s", ca=ca
    )
    credentials = Credentials(mechanism="OAUTHBEARER", username="c", password=secret, tokens=tokens)
    access = Access(credentials=credentials)
    options = source_options(access)
    assert options["kafka.sasl.oauthbearer.token.endpoint.url"] == tokens.url
    assert SECRET not in str(options)
    assert secret_variables(access)[JAAS_VARIABLE].endswith(
        f'clientId="c" clientSecret="{SECRET}" scope="s"'
        f' ssl.truststore.type="PEM" ssl.truststore.location="{ca}";'
    )


def test_a_missing_password_file_is_reported(tmp_path: Path) -> None:
    """Before Spark starts."""
    path = tmp_path / "missing"
    credentials = Credentials(mechanism="PLAIN", username="u", password=Secret(path=path))
    with pytest.raises(UpstreamRefused, match=f"cannot read {path}"):
        secret_variables(Access(credentials=credentials))
