"""Adopts groups of consumers, while faults happen and outsiders come at random moments.

    python -m tests.e2e.adoption_loop --release 4.3 --rounds 10 --fault kill

In every second group another consumer joins in the cluster itself: a classic one, or on Kafka 4
also a native one. A partition with two owners, or a lost record or commit, ends it.
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import get_args

import trio

from tests.e2e.adoption_round import SECOND, Fault, Round
from tests.support.kafka_broker import KafkaCluster, running_kafka


def rounds(kafka: KafkaCluster, options: argparse.Namespace) -> Iterator[Round]:
    """Play the rounds."""
    for seed in range(options.seed, options.seed + options.rounds):
        started_s = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            played = Round(kafka, Path(folder), seed, options.fault, options.second)
            trio.run(partial(played.play, options.groups))
        took_s = time.monotonic() - started_s
        print(f"seed {seed}: {took_s:.0f} s, {dict(played.ends)}, {played.held_ms} ms", flush=True)
        yield played


def main() -> None:
    """Play rounds, and print how their adoptions ended."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--release", default="3.9")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--groups", type=int, default=8, help="in each round")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", choices=get_args(Fault), default="kill")
    parser.add_argument("--second", choices=SECOND, default="librdkafka", help="member of a group")
    options = parser.parse_args()
    ends: Counter[str] = Counter()
    held_ms: list[int] = []
    kills = 0
    with running_kafka(options.release) as kafka:
        for played in rounds(kafka, options):
            ends += played.ends
            held_ms += played.held_ms
            kills += played.kills
            print(f"{kills} kills so far", flush=True)
    print(f"in total {dict(ends)}; {kills} kills; owned twice 0, lost 0")
    print(f"held for {sorted(held_ms)} ms")


if __name__ == "__main__":
    main()
