"""The whole roll, there and back, with real consumers on real Apache Kafka: with and without the
new protocol in the cluster itself."""

from functools import partial

import pytest
import trio

from gateway.demo import mock_cluster
from gateway.demo.outcome import Options
from gateway.demo.run import run
from gateway.serve import run_demo_gateway
from tests.support.kafka_broker import FETCH_TIMEOUT_S, PARTITIONS, KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]


async def instead_of_the_embedded_cluster(
    upstream: str, *, topic: str, partitions: int, task_status: trio.TaskStatus[str]
) -> None:
    """Start with the address of a cluster that runs already and has the topic."""
    task_status.started(upstream)
    await trio.sleep_forever()


async def test_consumers_roll_there_and_back(
    kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo's own promises: nothing lost, nothing owned twice, converted live both ways, and
    the offsets read from the cluster directly."""
    upstream = partial(instead_of_the_embedded_cluster, kafka.bootstrap_servers)
    monkeypatch.setattr(mock_cluster, "run", upstream)
    outcome = await run(Options(consumers=2, partitions=PARTITIONS), run_demo_gateway)
    assert outcome.reason is None
    assert set(outcome.conversions.values()) == {"live"}
    assert outcome.totals is not None
    assert (outcome.totals.lost, outcome.totals.partitions_with_two_owners) == (0, 0)
    assert outcome.totals.committed_offsets == outcome.totals.end_offsets
    assert outcome.totals.consumed > 0
