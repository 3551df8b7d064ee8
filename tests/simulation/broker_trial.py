"""Plays `broker_cases/` at real brokers: `python -m tests.simulation.broker_trial --help`."""

import argparse
import sys
import time
from fnmatch import fnmatchcase

import trio

from tests.simulation.broker_cases.all_cases import CASES
from tests.simulation.broker_profiles import PROFILES
from tests.simulation.trial_stage import running_trial_stage


def main() -> int:
    """Play the cases that the arguments name. The exit status is 1 if an answer differed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["*"], help="patterns of names of cases")
    parser.add_argument("--release", choices=[profile.release for profile in PROFILES])
    given = parser.parse_args()
    differ = 0
    for profile in PROFILES:
        if given.release not in (None, profile.release):
            continue
        cases = [
            case
            for case in CASES.values()
            if profile.release in case.releases
            and any(fnmatchcase(case.name, pattern) for pattern in given.names)
        ]
        with running_trial_stage(profile) as stage:
            started_s = time.monotonic()
            failures = trio.run(stage.play, cases)
            took_s = time.monotonic() - started_s
        for name, failure in failures.items():
            print(f"\n===== {profile.release}: {name}\n{failure}")
        print(f"\n{profile.release}: {len(cases)} cases, {took_s:.1f} s; {len(failures)} differ")
        differ += len(failures)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
