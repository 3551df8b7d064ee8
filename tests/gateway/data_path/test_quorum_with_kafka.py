"""DescribeQuorum, asked by real tools: everything except the addresses of the controllers."""

import re

import pytest
import trio
from kafka import KafkaAdminClient

from tests.support.gateway import whole_gateway
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.kafka_release import QUICK_START, kafka_release
from tests.support.releases import NEWEST

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"
TOOLS_RELEASE = NEWEST
JAVA_OPTIONS = (*QUICK_START, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_ENDPOINTS = re.compile(r', "endpoints": \[[^]]*\]|"endpoints": \[[^]]*\], ')
_GROWS = ("HighWatermark", "MaxFollowerLag")


def without_progress(shown: str) -> list[list[str]]:
    """The rows of the tool's output, without addresses, offsets and times."""
    rows = [line.split() for line in _ENDPOINTS.sub("", shown).splitlines()]
    return [
        [cell for cell in row if cell == row[0] or not cell.lstrip("-").isdigit()]
        for row in rows
        if row and not row[0].startswith(_GROWS)
    ]


async def describe_quorum(bootstrap: str, *arguments: str) -> str:
    """What Kafka's tool prints."""
    release = kafka_release(TOOLS_RELEASE, JAVA_OPTIONS)
    command = release.command(TOOL, "--bootstrap-server", bootstrap, "describe", *arguments)
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    return (done.stdout + done.stderr).decode()


async def test_kafkas_tool_and_kafka_python_describe_the_quorum(kafka: KafkaCluster) -> None:
    """Version 2 is the only one that kafka-python has."""
    async with whole_gateway(kafka.addresses) as gateway:
        for arguments in (("--status",), ("--replication",)):
            behind = await describe_quorum(gateway.bootstrap_servers, *arguments)
            direct = await describe_quorum(kafka.bootstrap_servers, *arguments)
            assert "Exception" not in behind, behind
            assert without_progress(behind) == without_progress(direct)
        seen = [
            await trio.to_thread.run_sync(describe_with_kafka_python, servers)
            for servers in (gateway.bootstrap_servers, kafka.bootstrap_servers)
        ]
        assert seen[0] == seen[1]
        gateway.stop.set()
        await gateway.ended.wait()


def describe_with_kafka_python(servers: str) -> object:
    """The voters of the quorum."""
    client = KafkaAdminClient(bootstrap_servers=servers)
    try:
        answer = client.describe_metadata_quorum()
    finally:
        client.close()
    (topic,) = answer["topics"]
    return [voter["replica_id"] for voter in topic["partitions"][0]["current_voters"]]
