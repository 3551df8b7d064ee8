"""`groupferry readiness` and `refuse_defective_clients` with a client version that is defective."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.support.client_programs import program
from tests.support.mock_cluster import running_mock_cluster
from tests.support.serve_process import PROGRAM, serving

pytestmark = pytest.mark.timeout(240)

LIMIT_S = 60
VERSION = "2.8.0"
CONSUMER = """
import sys
from confluent_kafka import Consumer, KafkaError

bootstrap, protocol = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "group.protocol": protocol})
consumer.subscribe(["numbers"])
while True:
    message = consumer.poll(0.2)
    if message is not None and message.error() and message.error().code() == KafkaError._FATAL:
        print(message.error().str(), flush=True)
        break
"""


async def consume(bootstrap: str, protocol: str) -> str:
    """Run a consumer of the old version until a fatal error, and return what it printed."""
    old = program("librdkafka", VERSION)
    done = await trio.run_process(
        [sys.executable, "-P", "-c", CONSUMER, bootstrap, protocol],
        env={**os.environ, **old.environment},
        capture_stdout=True,
        stderr=subprocess.DEVNULL,
    )
    return done.stdout.decode()


async def readiness(state: Path, *arguments: str) -> str:
    """What the command prints."""
    done = await trio.run_process(
        [sys.executable, "-P", "-c", PROGRAM, "readiness", f"--state-dir={state}", *arguments],
        capture_stdout=True,
    )
    return done.stdout.decode()


async def test_a_defective_version_is_named_and_refused(tmp_path: Path) -> None:
    """A defective client works as a classic member, and is reported. With the new protocol it ends
    immediately."""
    state = tmp_path / "state"
    with trio.fail_after(LIMIT_S):
        async with running_mock_cluster(1) as upstream:
            await upstream.create_topic("numbers", 3)
            host, port = upstream.bootstrap[0]
            async with (
                serving(f"{host}:{port}", state, "--refuse-defective-clients=true") as gateway,
                trio.open_nursery() as nursery,
            ):
                assert "no groups yet" in await readiness(state)
                nursery.start_soon(consume, gateway.bootstrap, "classic")
                await gateway.until_event("partitions_assigned")
                printed = await consume(gateway.bootstrap, "consumer")
                line = await gateway.until_event("defective_client_refused")
                readiness_view = json.loads(await readiness(state, "g", "--json"))
                text = await readiness(state)
                nursery.cancel_scope.cancel()
    assert "API version not supported" in printed
    assert "Use version 2.15 or later" in line["reason"]
    assert (readiness_view["mode"], readiness_view["members"], readiness_view["can_convert"]) == (
        "hosted",
        1,
        True,
    )
    (client,) = readiness_view["clients"]
    assert client["software_version"].startswith(VERSION)
    assert len(client["defects"]) == 3
    assert "can convert: yes" in text
    assert "defective: an early version of the new protocol" in text
