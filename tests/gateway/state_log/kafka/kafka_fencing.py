"""Fences producers of a real cluster."""

import trio
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.support.kafka_broker import KafkaCluster


async def fence(cluster: KafkaCluster, transactional_id: str) -> None:
    """Fence the producer without a claim, like a cluster after an overlong transaction."""

    def initialise() -> None:
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": transactional_id}
        )
        while True:
            try:
                producer.init_transactions(10)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.CONCURRENT_TRANSACTIONS:
                    raise
            else:
                return

    await trio.to_thread.run_sync(initialise)
