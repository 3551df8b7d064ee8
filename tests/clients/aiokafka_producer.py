"""A producer of aiokafka, as `librdkafka_producer.py`."""

import asyncio
import sys

from aiokafka import AIOKafkaProducer

TEXT = b"compressible text " * 5_000
LONG_TEXT = b"compressible text " * 110_000


async def main(bootstrap: str, prefix: str, *codecs: str) -> None:
    """Produce, and fail at the first error."""
    for codec in codecs:
        settings = {
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


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
