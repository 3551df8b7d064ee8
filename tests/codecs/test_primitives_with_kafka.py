"""Apache Kafka's own classes decode strings to the same characters."""

import random
import subprocess
from itertools import product

import pytest

from kafka_codecs.primitives import INT16, String, build_all, parse_all
from tests.support.java_programs import java_program
from tests.support.kafka_jars import FETCH_TIMEOUT_S, kafka_jars
from tests.support.releases import NEWEST

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

BOUNDS = bytes.fromhex("00 41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 ff")
"""The first and the last byte of each kind that UTF-8 knows."""
EXHAUSTIVE_SIZE = 3
LONGER = 20_000
SIZE_MAX = 24
"""Each byte may become three."""
STRING = String(INT16, nullable=False)


def test_kafka_decodes_malformed_strings_to_the_same_characters() -> None:
    """Truncated and overlong sequences, surrogates, NUL, and bytes that UTF-8 does not have."""
    rng = random.Random(42)
    texts = [bytes(text) for n in range(EXHAUSTIVE_SIZE + 1) for text in product(BOUNDS, repeat=n)]
    texts += [
        bytes(rng.choices(BOUNDS, k=rng.randrange(EXHAUSTIVE_SIZE + 1, SIZE_MAX)))
        for _ in range(LONGER)
    ]
    done = subprocess.run(
        java_program("DecodedStrings", f"{kafka_jars(NEWEST)}/*"),
        input=b"".join(bytes([len(text)]) + text for text in texts),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    end = 0
    for text in texts:
        start, end = end + 1, end + 1 + done.stdout[end]
        wire = build_all(INT16, len(text)) + text
        assert parse_all(STRING, wire).encode() == done.stdout[start:end], text.hex()
    assert end == len(done.stdout)
