"""A producer of aiokafka, as `librdkafka_producer.py`."""

import asyncio
import sys

from aiokafka import AIOKafkaProducer
from aiokafka.errors import InvalidProducerEpoch, ProducerFenced

TEXT = b"compressible text " * 5_000
LONG_TEXT = b"compressible text " * 110_000


async def main(bootstrap: str, prefix: str, *codecs: str) -> None:
    """Produce, and fail at the first error."""
    for codec in codecs:
        settings: dict[str, object] = {
            "bootstrap_servers": bootstrap,
            "compression_type": None if codec == "none" else codec,
            "max_request_size": 4_000_000,
            "enable_idempotence": True,
        }
        topic = f"{prefix}-{codec}"
        async with AIOKafkaProducer(**settings) as plain:
            for text in (TEXT,) if codec == "none" else (TEXT, LONG_TEXT):
                await plain.send_and_wait(topic, text, partition=0)
        async with AIOKafkaProducer(**settings, transactional_id=topic) as transactional:
            async with transactional.transaction():
                await transactional.send_and_wait(topic, TEXT, partition=0)
        if codec == "none":
            await check_fencing({**settings, "transactional_id": f"{topic}-fenced"}, topic)


async def check_fencing(settings: dict[str, object], topic: str) -> None:
    """Fail unless the first of two producers with one transactional id is fenced."""
    first, second = AIOKafkaProducer(**settings), AIOKafkaProducer(**settings)
    await first.start()
    await first.begin_transaction()
    await first.send_and_wait(topic, TEXT, partition=1)
    async with second:
        try:
            await first.commit_transaction()
        except (ProducerFenced, InvalidProducerEpoch):
            return
    sys.exit(f"{topic}: the first producer was not fenced")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
