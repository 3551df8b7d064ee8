"""A producer of kafka-python, as `librdkafka_producer.py`."""

import sys

from kafka import KafkaProducer
from kafka.errors import InvalidProducerEpochError, ProducerFencedError

TEXT = b"compressible text " * 5_000
LONG_TEXT = b"compressible text " * 110_000


def main(bootstrap: str, prefix: str, *codecs: str) -> None:
    """Produce, and fail at the first error."""
    for codec in codecs:
        settings: dict[str, object] = {
            "bootstrap_servers": bootstrap,
            "compression_type": None if codec == "none" else codec,
            "max_request_size": 4_000_000,
        }
        topic = f"{prefix}-{codec}"
        plain = KafkaProducer(**settings)
        for text in (TEXT,) if codec == "none" else (TEXT, LONG_TEXT):
            plain.send(topic, text, partition=0).get(30)
        plain.close()
        transactional = KafkaProducer(**settings, transactional_id=topic)
        transactional.init_transactions()
        transactional.begin_transaction()
        transactional.send(topic, TEXT, partition=0).get(30)
        transactional.commit_transaction()
        transactional.close()
        if codec == "none":
            check_fencing({**settings, "transactional_id": f"{topic}-fenced"}, topic)


def check_fencing(settings: dict[str, object], topic: str) -> None:
    """Fail unless the first of two producers with one transactional id is fenced."""
    first, second = KafkaProducer(**settings), KafkaProducer(**settings)
    first.init_transactions()
    first.begin_transaction()
    first.send(topic, TEXT, partition=1).get(30)
    second.init_transactions()
    try:
        first.commit_transaction()
    except (ProducerFencedError, InvalidProducerEpochError):
        return
    sys.exit(f"{topic}: the first producer was not fenced")


if __name__ == "__main__":
    main(*sys.argv[1:])
