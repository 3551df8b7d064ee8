"""Adopts and releases groups of consumers of six libraries, while gateway and consumers are
killed at random moments.

    python -m tests.e2e.library_loop --release 4.3 --rounds 200

A round is one move of one group, until its members own every partition again. Between moves a
member is sometimes restarted with the new protocol and back. Prints the records that were lost, the
partitions that were owned twice, the groups that were stuck, and the time without an owner. The
exit status is 1 if there was any of the first three.
"""

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import trio

from tests.e2e.library_moves import LibraryMoves, MoveResults, summary_lines
from tests.support.kafka_broker import running_kafka


def print_results(results: MoveResults) -> None:
    """Print what happened so far."""
    for line in summary_lines(results.moves):
        print(line)
    for reason, count in results.refusals.most_common(20):
        print(f"{count:5} times asked again, {reason}")
    for reason, count in results.restarts.most_common(20):
        print(f"{count:5} times restarted, {reason}")
    print(f"{len(results.moves)} rounds, {results.gateway_kills} kills of the gateway", end=", ")
    print(f"{results.consumer_kills} of consumers: lost {results.lost}", end=", ")
    print(f"owned twice {results.owned_twice}, stuck {len(results.stuck)}", end=", ")
    print(f"{len(results.broken)} groups with a broken promise", flush=True)


def main() -> None:
    """Play sessions of some groups until there were enough moves."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--release", default="4.3")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--groups", type=int, default=3, help="behind one gateway")
    parser.add_argument("--moves", type=int, default=8, help="of each group, before new ones begin")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no session after it")
    options = parser.parse_args()
    ends_at_s = time.monotonic() + 60 * options.minutes
    results = MoveResults()
    seed = options.seed
    with running_kafka(options.release) as kafka:
        while len(results.moves) < options.rounds and time.monotonic() < ends_at_s:
            started_s = time.monotonic()
            stuck_before, broken_before = len(results.stuck), len(results.broken)
            with tempfile.TemporaryDirectory() as folder:
                session = LibraryMoves(kafka, Path(folder), seed, options.groups, results)
                trio.run(partial(session.play, options.moves))
            print(f"seed {seed}: {time.monotonic() - started_s:.0f} s", flush=True)
            for problem in [*results.stuck[stuck_before:], *results.broken[broken_before:]]:
                print(problem, flush=True)
            print_results(results)
            seed += 1
    sys.exit(0 if results.is_clean else 1)


if __name__ == "__main__":
    main()
