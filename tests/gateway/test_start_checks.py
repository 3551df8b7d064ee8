"""What a gateway warns of at its start. `test_serve.py` has the checks that end it."""

from structlog.testing import capture_logs

from gateway.cluster.finding import FoundCluster
from gateway.start_checks import MANY_COORDINATOR_NODES, warn_of_nodes


def test_many_coordinator_nodes_are_warned_of() -> None:
    """librdkafka runs a thread for each: one for each process and broker."""
    brokers = {number: (f"kafka-{number}", 9092) for number in range(4)}
    cluster = FoundCluster(cluster_id="c", addresses=(("kafka-0", 9092),), brokers=brokers)
    few = MANY_COORDINATOR_NODES // len(brokers)
    with capture_logs() as lines:
        warn_of_nodes(few, cluster)
        assert lines == []
        warn_of_nodes(few + 1, cluster)
    (line,) = lines
    assert (line["event"], line["nodes"]) == ("coordinator_nodes_many", 4 * (few + 1))
