"""A producer of librdkafka: `BOOTSTRAP PREFIX CODEC...`.

For each codec it writes a record of text to the topic PREFIX-CODEC, and one within a transaction.
"""

import sys

from confluent_kafka import Producer

TEXT = b"compressible text " * 5_000
LONG_TEXT = b"compressible text " * 110_000
"""More than a broker takes uncompressed."""


def main(bootstrap: str, prefix: str, *codecs: str) -> None:
    """Produce, and fail at the first error."""
    for codec in codecs:
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "message.max.bytes": 4_000_000,
            "enable.idempotence": True,
        }
        topic = f"{prefix}-{codec}"
        plain = Producer(settings)
        for text in (TEXT,) if codec == "none" else (TEXT, LONG_TEXT):
            produce(plain, topic, text)
        transactional = Producer({**settings, "transactional.id": topic})
        transactional.init_transactions(30)
        transactional.begin_transaction()
        produce(transactional, topic, TEXT)
        transactional.commit_transaction(30)


def produce(producer: Producer, topic: str, text: bytes) -> None:
    """Write one record, alone in its batch."""
    errors: list[object] = []
    producer.produce(topic, text, partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    if errors != [None]:
        sys.exit(f"{topic}: {errors}")


if __name__ == "__main__":
    main(*sys.argv[1:])
