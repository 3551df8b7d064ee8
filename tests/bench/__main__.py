"""Run benchmarks: all, or those named.

python -m tests.bench [NAME ...] [--short] [--keep] [--only TEXT]
python -m tests.bench roll [what `bench_roll.py` takes]
python -m tests.bench herd [--members N] [--tls]
python -m tests.bench leaves [--only TEXT] [--keep]
python -m tests.bench guard [--only TEXT] [--keep] [--planted]
python -m tests.bench fleet [--only nodes|cost|refusing|kill|restart] [what `bench_fleet.py` takes]
"""

import argparse
import subprocess
import sys
from pathlib import Path

SIDE_BY_SIDE = ("group_calls", "members", "relay", "tls")
"""Benches that measure peers, keep results and have a short form."""
GUARD, HERD, ROLL, LEAVES, FLEET = "guard", "herd", "roll", "leaves", "fleet"
"""Run by their names: the first counts instead of measuring, the others take long."""


def main() -> None:
    """Run each in a process of its own. Fail if one has failed."""
    folder = Path(__file__).parent
    names = sorted(path.stem.removeprefix("bench_") for path in folder.glob("bench_*.py"))
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--short", action="store_true", help="only those that have a short form")
    parser.add_argument("--keep", action="store_true", help="replace the committed results")
    parser.add_argument(
        "--only", metavar="TEXT", action="append", default=[], help="rows with TEXT in their name"
    )
    options, others = parser.parse_known_args()
    if others and options.names not in ([ROLL], [GUARD], [HERD], [FLEET]):
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    if unknown := set(options.names) - set(names):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    failed = []
    everything = [name for name in names if name not in (GUARD, HERD, ROLL, LEAVES, FLEET)]
    for name in options.names or (SIDE_BY_SIDE if options.short else everything):
        command = [sys.executable, f"{folder / f'bench_{name}.py'}"]
        if name in (GUARD, ROLL, LEAVES) and options.keep:
            command += ["--keep"]
        if name in (GUARD, HERD, ROLL, FLEET):
            command += others
        if name in (*SIDE_BY_SIDE, FLEET) and options.short:
            command += ["--short"]
        if name in SIDE_BY_SIDE and options.keep:
            command += ["--keep"]
        if name in (*SIDE_BY_SIDE, GUARD, ROLL, LEAVES, FLEET):
            command += [f"--only={text}" for text in options.only]
        sys.stdout.write(f"== {name}\n")
        sys.stdout.flush()
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
