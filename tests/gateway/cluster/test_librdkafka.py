"""The gateway's own librdkafka clients."""

import logging
from logging.handlers import MemoryHandler
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from gateway.cluster.access import Access
from gateway.cluster.bearer_tokens import BearerTokens
from gateway.cluster.librdkafka import client_config
from gateway.cluster.sasl import Credentials
from gateway.cluster.secret import Secret
from gateway.transport.certificates import CertificateFiles, for_brokers
from tests.support.certificate_authority import CertificateAuthority
from tests.support.ports import HOST, free_port
from tests.support.token_server import token_server
from tests.support.until import until

LIMIT_S = 0.5


def test_a_client_needs_one_reachable_address() -> None:
    """The cluster sees its client id."""
    config = client_config([("kafka-1", 9092), ("kafka-2", 9093)], "groupferry-state")
    assert config["bootstrap.servers"] == "kafka-1:9092,kafka-2:9093"
    assert config["client.id"] == "groupferry-state"


def test_tls_has_the_same_files(tmp_path: Path) -> None:
    """Without a certificate of its own, the client names none."""
    files = CertificateAuthority.in_folder(tmp_path).issue("gateway")
    config = client_config([("k", 1)], "c", Access(tls=for_brokers(files, check_host=False)))
    assert config["security.protocol"] == "ssl"
    assert config["ssl.endpoint.identification.algorithm"] == "none"
    assert config["ssl.ca.location"] == f"{files.ca}"
    assert config["ssl.certificate.location"] == f"{files.cert}"
    assert config["ssl.key.location"] == f"{files.key}"
    alone = client_config([("k", 1)], "c", Access(tls=for_brokers(CertificateFiles())))
    assert alone["ssl.endpoint.identification.algorithm"] == "https"
    assert not {"ssl.ca.location", "ssl.certificate.location", "ssl.key.location"} & set(alone)


async def test_tokens_come_from_the_endpoint_with_the_same_authority(tmp_path: Path) -> None:
    """Without it librdkafka would trust the system's authorities only."""
    authority = CertificateAuthority.in_folder(tmp_path)
    with token_server(authority.issue("tokens", HOST)) as server:
        tokens = BearerTokens(
            url=server.url, client_id="gateway", secret=Secret("s"), ca=authority.ca
        )
        credentials = Credentials(
            mechanism="OAUTHBEARER", username="gateway", password=tokens.secret, tokens=tokens
        )
        access = Access(credentials=credentials)
        admin = AdminClient(dict(client_config([(HOST, free_port())], "c", access)))
        await until(lambda: server.asked)
        del admin  # its thread has asked


def test_a_look_up_creates_no_topic() -> None:
    """A look-up that creates topics would bring back a deleted topic with the broker's default
    settings."""
    assert client_config([("kafka", 9092)], "c")["allow.auto.create.topics"] is False


def test_an_unreachable_cluster_raises_without_console_output(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """librdkafka would print a line of its own per attempt."""
    port = free_port()
    of_everybody = MemoryHandler(capacity=1_000, flushLevel=logging.CRITICAL + 1)
    logging.getLogger().addHandler(of_everybody)
    try:
        admin = AdminClient(dict(client_config([(HOST, port)], "c")))
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=LIMIT_S)
        admin.poll(0)
    finally:
        logging.getLogger().removeHandler(of_everybody)
    # A Kafka client of an earlier test may write lines of its own meanwhile.
    printed = "".join(capfd.readouterr())
    assert f":{port}" not in printed + "".join(map(logging.Formatter().format, of_everybody.buffer))
