"""Plays differential scripts by hand: `python -m tests.differential.play --help`."""

import argparse
import sys
import time
from collections import Counter
from fnmatch import fnmatchcase

import trio

from tests.differential.random_script import random_scripts
from tests.support.differential.script import SCRIPTS, load_scripts
from tests.support.differential.stage import running_stage
from tests.support.releases import NEWEST, RELEASES


def main() -> int:
    """Play the scripts that the arguments name. The exit status is 1 if an answer differed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["*"], help="patterns of script names")
    parser.add_argument("--release", choices=RELEASES[1:], default=NEWEST)
    parser.add_argument("--transcript", action="store_true", help="show all requests and answers")
    parser.add_argument("--seeds", type=int, default=0, help="how many random scripts instead")
    parser.add_argument("--first-seed", type=int, default=0)
    given = parser.parse_args()
    load_scripts()
    chosen = random_scripts(range(given.first_seed, given.first_seed + given.seeds)) or [
        script
        for script in SCRIPTS.values()
        if any(fnmatchcase(script.name, pattern) for pattern in given.names)
    ]
    with running_stage(given.release, (script.profile for script in chosen)) as stage:
        started_s = time.monotonic()
        outcomes = trio.run(stage.play, chosen)
        took_s = time.monotonic() - started_s
    for name, outcome in outcomes.items():
        if outcome.failure or given.transcript:
            print(f"\n===== {name}\n{outcome.failure or outcome.transcript}")
    met = Counter(d for outcome in outcomes.values() for d in outcome.deviations)
    print(f"\ndeviations: {dict(met)}")
    failed = sum(outcome.failure is not None for outcome in outcomes.values())
    steps = sum(outcome.steps for outcome in outcomes.values())
    print(f"\n{len(outcomes)} scripts, {steps} steps, {took_s:.1f} s; {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
