"""Attacks a gateway with mutated requests of real clients: `python -m tests.fuzz --help`."""

import argparse
import math
import sys
import time

import trio

from tests.fuzz.campaign import TOGETHER, Campaign, Outcome, play


def main() -> int:
    """Play one campaign. Returns 1 if it found a problem."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=10_000_000, help="stop after this many")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after this time, too")
    parser.add_argument("--seed", type=int, default=None, help="by default a new one")
    parser.add_argument("--first", type=int, default=0, help="number of the first connection")
    parser.add_argument("--together", type=int, default=TOGETHER, help="connections at a time")
    parser.add_argument("--tls", action="store_true", help="clients use TLS")
    parser.add_argument("--sasl", action="store_true", help="clients authenticate")
    given = parser.parse_args()
    seed = time.time_ns() % 1_000_000 if given.seed is None else given.seed
    campaign = Campaign(
        seed=seed,
        frames=given.frames,
        limit_s=60 * given.minutes,
        first=given.first,
        tls=given.tls,
        authenticates=given.sasl,
        together=given.together,
    )
    print(f"seed {seed}", flush=True)
    outcome = trio.run(play, campaign, _tell)
    print(
        f"{outcome.frames} frames on {outcome.connections} connections,"
        f" {outcome.cpu_s:.0f} s of processor time in the gateway"
        f" and {time.process_time():.0f} s here,"
        f" memory {' -> '.join(map(str, outcome.memory_kib))} KiB,"
        f" {outcome.rounds} rounds of the neighbours"
    )
    for problem in outcome.problems:
        print(problem)
    return 1 if outcome.problems else 0


def _tell(so_far: Outcome) -> None:
    print(f"{so_far.frames} frames, memory {so_far.memory_kib[-1]} KiB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
