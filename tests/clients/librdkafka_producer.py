"""A producer of librdkafka: `BOOTSTRAP PREFIX CODEC...`.

For each codec it writes a record of text to the topic PREFIX-CODEC, and one within a transaction.
In partition 1 a second producer fences the first one.
"""

import sys

from confluent_kafka import KafkaError, KafkaException, Producer

TEXT = b"compressible text " * 5_000
LONG_TEXT = b"compressible text " * 110_000
"""A text that is longer than a broker takes uncompressed."""


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
        if codec == "none":
            check_fencing({**settings, "transactional.id": f"{topic}-fenced"}, topic)


def check_fencing(settings: dict[str, str | int | float | bool], topic: str) -> None:
    """Fail unless the first of two producers with one transactional id is fenced."""
    first, second = Producer(settings), Producer(settings)
    first.init_transactions(30)
    first.begin_transaction()
    produce(first, topic, TEXT, partition=1)
    second.init_transactions(30)
    try:
        first.commit_transaction(30)
    except KafkaException as error:
        if error.args[0].code() == KafkaError._FENCED:
            return
    sys.exit(f"{topic}: the first producer was not fenced")


def produce(producer: Producer, topic: str, text: bytes, partition: int = 0) -> None:
    """Write one record, alone in its batch."""
    errors: list[object] = []
    producer.produce(
        topic, text, partition=partition, on_delivery=lambda error, _: errors.append(error)
    )
    producer.flush(30)
    if errors != [None]:
        sys.exit(f"{topic}: {errors}")


if __name__ == "__main__":
    main(*sys.argv[1:])
