"""Attacks a gateway with mutated requests of real clients: `python -m tests.fuzz --help`."""

import argparse
import math
import sys
import time
from functools import partial

import trio

from tests.fuzz.campaign import TOGETHER, Campaign, Outcome, play


def main() -> int:
    """Play a campaign, or two at the same time. Returns 1 if a problem was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=10_000_000, help="stop after this many")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after this time, too")
    parser.add_argument("--seed", type=int, default=None, help="by default a new one")
    parser.add_argument("--first", type=int, default=0, help="number of the first connection")
    parser.add_argument("--together", type=int, default=TOGETHER, help="connections at a time")
    parser.add_argument("--tls", action="store_true", help="clients use TLS")
    parser.add_argument("--sasl", action="store_true", help="clients authenticate")
    parser.add_argument(
        "--both",
        action="store_true",
        help="half of the frames without TLS and SASL, half with both, at two gateways",
    )
    given = parser.parse_args()
    seed = time.time_ns() % 1_000_000 if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    if given.both:
        return trio.run(_play_both, given, seed)
    campaign = Campaign(
        seed=seed,
        frames=given.frames,
        limit_s=60 * given.minutes,
        first=given.first,
        tls=given.tls,
        authenticates=given.sasl,
        together=given.together,
    )
    started_s = time.monotonic()
    outcome = trio.run(play, campaign, partial(_tell, campaign, started_s))
    print(
        f"{campaign.listens}: {outcome.frames} frames on {outcome.connections} connections"
        f" in {time.monotonic() - started_s:.0f} s,"
        f" {outcome.cpu_s:.0f} s of processor time in the gateway,"
        f" {time.process_time():.0f} s here,"
        f" memory {' -> '.join(map(str, outcome.memory[:1] + outcome.memory[-1:]))},"
        f" {outcome.rounds} rounds of the neighbours",
        *outcome.problems,
        sep="\n",
    )
    return 1 if outcome.problems else 0


async def _play_both(given: argparse.Namespace, seed: int) -> int:
    """A process each: one could not keep two gateways busy."""
    command = (
        *(sys.executable, "-m", "tests.fuzz", f"--frames={given.frames // 2}", f"--seed={seed}"),
        *(f"--minutes={given.minutes}", f"--first={given.first}", f"--together={given.together}"),
    )
    codes: list[int | None] = []

    async def play_one(*flags: str) -> None:
        codes.append((await trio.run_process([*command, *flags], check=False)).returncode)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(play_one)
        nursery.start_soon(play_one, "--tls", "--sasl")
    return 1 if any(codes) else 0


def _tell(campaign: Campaign, started_s: float, so_far: Outcome) -> None:
    print(
        f"{campaign.listens}: {so_far.frames} frames in {time.monotonic() - started_s:.0f} s,"
        f" memory {so_far.memory[-1]}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
