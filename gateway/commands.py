"""The commands: `groupferry serve`, `state`, `events`, `demo`, `report`, `simulate`, `--version`.

Owns flags, exit statuses and what is printed about a refusal: one line per reason on stderr, never
a traceback. 0 is success, 1 a run that failed, 2 a wrong call, 128 plus its number a signal.
"""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn, get_args

import trio

from gateway import logs, serve, settings, show_events, show_state, simulate
from gateway.demo import summary
from gateway.demo.borrowed_cluster import borrowed, random_prefix
from gateway.demo.mock_cluster import RATE_PER_PARTITION_MAX, embedded
from gateway.demo.outcome import Options
from gateway.demo.run import Interrupted
from gateway.demo.run import run as run_demo
from gateway.demo.upstream import OpenUpstream
from gateway.events.line_files import FOLDER_NAME
from gateway.pipeline import installed
from gateway.pipeline.errors import PipelineError
from gateway.state_log.log import StateLogError, StateLogUnusable

ASSIGNORS = ("range", "roundrobin", "cooperative-sticky")
CONSUMERS_MAX = 64
PARTITIONS_MAX = 1024
RATE_MAX = 20_000
TOP_MAX = 1_000
INTERVAL_S_MAX = 24 * 60 * 60
SEEDS_MAX = 1_000_000
SEED_MAX = 2**63 - 1
PREFIX = re.compile("[a-zA-Z0-9._-]{1,200}")
"""What Kafka takes in a topic's name; the rest of that name fits into the 249 it may have."""

_FAILED = 1
_WRONG_CALL = 2

_SERVE_EPILOG = f"""\
Each setting can be given in three places; the first one wins: its flag, its environment variable
({settings.ENVIRONMENT_PREFIX} and its name, for example {settings.ENVIRONMENT_PREFIX}LISTEN), its
name in the TOML file that --config or {settings.ENVIRONMENT_PREFIX}CONFIG names. Kafka's own
configs keep their dotted names in the file.
"""


def run(argv: Sequence[str] | None) -> int:
    """Run the command and return its exit status."""
    options = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = options.command
    del options.command
    try:
        return command(options)
    except settings.SettingsError as error:
        for line in error.lines:
            _say(line)
        return _WRONG_CALL
    except PipelineError as error:
        _say(str(error))
        return _FAILED


def _serve(options: argparse.Namespace) -> int:
    chosen = settings.load(vars(options))
    logs.configure(chosen.log_format, chosen.log_level)
    return serve.run(chosen)


def _demo(options: argparse.Namespace) -> int:
    open_upstream: OpenUpstream = embedded
    if options.upstream:
        open_upstream = partial(borrowed, options.upstream, options.prefix or random_prefix())
    elif options.prefix:
        _say("--prefix: only with --upstream, for what is made there")
        return _WRONG_CALL
    elif options.rate > options.partitions * RATE_PER_PARTITION_MAX:
        most = options.partitions * RATE_PER_PARTITION_MAX
        _say(f"--rate: at most {most} for {options.partitions} partitions, the demo is in memory")
        return _WRONG_CALL
    folder: Path | None = options.state_dir
    if folder is not None and (why := _not_new(folder)):
        _say(f"--state-dir: {why}")
        return _WRONG_CALL
    logs.configure(options.log_format, options.log_level)
    wanted = Options(
        consumers=options.consumers,
        partitions=options.partitions,
        assignor=options.assignor,
        static=options.static,
        rate=options.rate,
    )
    try:
        run_gateway = partial(serve.run_demo_gateway, state_dir=folder)
        outcome = trio.run(run_demo, wanted, run_gateway, open_upstream)
    except Interrupted as interruption:
        _say(f"demo ended by {interruption}")
        return interruption.exit_status
    if options.json:
        sys.stdout.write(summary.as_json(outcome) + "\n")
    else:
        summary.show(outcome)
        if folder is not None:
            sys.stdout.write(_report_line(folder) + "\n")
    if outcome.reason is not None:
        _say(f"demo failed: {outcome.reason}")
        return _FAILED
    return 0


def _not_new(folder: Path) -> str | None:
    """Why the demo cannot have this folder: its cluster is a new one each time, and what an earlier
    one left behind would be told as if it were of the same."""
    try:
        is_empty = not any(folder.iterdir())
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return None if is_empty else f"{folder} is not empty, give a new folder"


def _report_line(folder: Path) -> str:
    """The command that reports on what happened in the demo."""
    words = ["groupferry", "report", f"{folder / FOLDER_NAME}", "--output", f"{folder / 'report'}"]
    return shlex.join(words)


def _state(options: argparse.Namespace) -> int:
    try:
        if options.upstream is not None:
            upstream = settings.addresses(options.upstream)
            show_state.of_topic(upstream, options.state_topic, options.group)
            return 0
        folder = settings.state_folder(options.state_dir)
        if show_state.of_folder(folder, options.group):
            return 0
    except (ValueError, StateLogUnusable, StateLogError) as error:
        _say(str(error))
    else:
        _say(f"there is no state log in {folder}; see --state-dir")
    return _FAILED


def _events(options: argparse.Namespace) -> int:
    try:
        folder = settings.state_folder(options.state_dir) / FOLDER_NAME
        if show_events.run(folder, options.group, follows=options.follow, as_json=options.json):
            return 0
    except BrokenPipeError:  # whoever read them has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        _say(str(error))
    else:
        _say(f"there are no events in {folder}; see --state-dir")
    return _FAILED


def _report(options: argparse.Namespace) -> int:
    if options.follow and options.check:
        _say("--check: not with --follow, which has no last word")
        return _WRONG_CALL
    installed.require()
    from gateway.pipeline import command  # noqa: PLC0415  (needs Spark)

    inputs, output, top, master = options.inputs, options.output, options.top, options.master
    on_spark = dict(options.conf or ())
    if options.follow:
        every_s = options.interval
        return 128 + command.run_follow(
            inputs, output, top=top, interval_s=every_s, master=master, settings=on_spark
        )
    is_safe = command.run(inputs, output, top=top, master=master, settings=on_spark)
    return 0 if is_safe or not options.check else _FAILED


def _simulate(options: argparse.Namespace) -> int:
    first_seed, seeds, output = options.first_seed, options.seeds, options.output
    last_seed = first_seed + seeds - 1
    if last_seed > SEED_MAX:
        _say(f"--first-seed: the last of {seeds} seeds would be above {SEED_MAX}")
        return _WRONG_CALL
    if not (output or options.master or options.conf):
        is_fine, report = simulate.run(first_seed, seeds)
    else:
        installed.require()
        from gateway.pipeline import sweep  # noqa: PLC0415  (needs Spark)

        where = output or f"seeds-{first_seed}-{last_seed}"
        on_spark = dict(options.conf or ())
        is_fine, report = sweep.run(
            first_seed, seeds, where, master=options.master, settings=on_spark
        )
    sys.stdout.write(report + "\n")
    return 0 if is_fine else _FAILED


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        _say(f"{message}; see {self.prog} --help")
        sys.exit(_WRONG_CALL)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="groupferry",
        description="Moves a live Kafka consumer group to the new rebalance protocol and back.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="version", version=f"groupferry {version('groupferry')}"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    serving = commands.add_parser(
        "serve",
        usage="groupferry serve --upstream HOST:PORT[,...] [--SETTING VALUE ...]",
        help="run the gateway",
        description="Run the gateway in front of a Kafka cluster.",
        epilog=_SERVE_EPILOG,
        allow_abbrev=False,
    )
    settings.add_flags(serving)
    serving.set_defaults(command=_serve)

    state = commands.add_parser(
        "state",
        help="print what the state log holds, one JSON line per record",
        description="Print the records of the state log, also of a gateway that is running.",
        allow_abbrev=False,
    )
    _add_state_dir(state)
    state.add_argument(
        "--upstream", metavar="HOST:PORT[,...]", help="read the log in this cluster (--state kafka)"
    )
    state.add_argument(
        "--state-topic",
        metavar="TOPIC",
        default=settings.STATE_TOPIC,
        help="its topic (default: %(default)s)",
    )
    state.add_argument("--group", metavar="ID", help="records of this group only")
    state.set_defaults(command=_state)

    events = commands.add_parser(
        "events",
        help="print what happened to the groups",
        description="Print the events in a gateway's folder, also of one that is running.",
        allow_abbrev=False,
    )
    _add_state_dir(events)
    events.add_argument("--group", metavar="ID", help="events of this group only")
    events.add_argument("--follow", action="store_true", help="and those to come, until Ctrl-C")
    events.add_argument("--json", action="store_true", help="the JSON lines as they are")
    events.set_defaults(command=_events)

    demo = commands.add_parser(
        "demo",
        help="roll a group of real consumers there and back, with nothing but this machine",
        description="Roll a group of real consumers to the new protocol and back, one by one.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    _add_demo_options(demo)
    demo.set_defaults(command=_demo)

    reporting = commands.add_parser(
        "report",
        help="say what the migration did, from the events of any number of gateways",
        description="Make tables and a page from events, on Spark.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    reporting.set_defaults(master=None, conf=None)
    reporting.add_argument(
        "inputs", nargs="+", metavar="INPUT", help="a file, folder, pattern or URL with events"
    )
    reporting.add_argument(
        "--output",
        required=True,
        default=argparse.SUPPRESS,
        metavar="DIR",
        help="a folder for the page and the tables",
    )
    reporting.add_argument(
        "--check",
        action="store_true",
        help="status 1 if a partition had two owners, an offset went back, or events are missing",
    )
    reporting.add_argument(
        "--top", type=_count(TOP_MAX), metavar="N", default=50, help="worst groups on the page"
    )
    reporting.add_argument(
        "--follow",
        action="store_true",
        help="go on with what comes, until Ctrl-C; also where it was",
    )
    reporting.add_argument(
        "--interval",
        type=_count(INTERVAL_S_MAX),
        metavar="S",
        default=60,
        help="with --follow: seconds from one report to the next",
    )
    _add_spark_options(reporting)
    reporting.set_defaults(command=_report)

    simulating = commands.add_parser(
        "simulate",
        help="try to break the group engine, in simulated time",
        description="Play seeded runs of one group under faults, and check it at every step."
        " With --output, --master or --conf on Spark: all seeds, whatever breaks, a row for each.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    simulating.set_defaults(output=None, master=None, conf=None)
    simulating.add_argument(
        "--output",
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="on Spark: a new folder for the rows, Parquet (default: seeds-FIRST-LAST)",
    )
    _add_spark_options(simulating)
    simulating.add_argument(
        "--seeds", type=_count(SEEDS_MAX), metavar="N", default=200, help="how many runs"
    )
    simulating.add_argument(
        "--first-seed", type=_count(SEED_MAX, least=0), metavar="S", default=0, help="of the first"
    )
    simulating.set_defaults(command=_simulate)
    return parser


def _add_state_dir(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--state-dir",
        metavar="DIR",
        default=os.environ.get(f"{settings.ENVIRONMENT_PREFIX}STATE_DIR"),
        help="the gateway's folder (default: that of its own --state-dir)",
    )


def _add_spark_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--master",
        metavar="URL",
        default=argparse.SUPPRESS,
        help="Spark's master (default: local[*], or that of spark-defaults.conf)",
    )
    command.add_argument(
        "--conf",
        type=_spark_setting,
        action="append",
        metavar="KEY=VALUE",
        default=argparse.SUPPRESS,
        help="a setting of Spark, as often as needed",
    )


def _add_demo_options(demo: argparse.ArgumentParser) -> None:
    # first, or their help would show it
    demo.set_defaults(upstream=None, prefix=None, state_dir=None)
    demo.add_argument(
        "--upstream",
        type=_addresses,
        metavar="HOST:PORT[,...]",
        default=argparse.SUPPRESS,
        help="a cluster to use instead of the embedded one",
    )
    demo.add_argument(
        "--prefix",
        type=_prefix,
        default=argparse.SUPPRESS,
        help="there, of the topic and the group that are made and removed (default: a random one)",
    )
    demo.add_argument(
        "--state-dir",
        type=Path,
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="a new folder for what the gateway keeps, its events above all (default: none)",
    )
    defaults = Options()
    for name, most, default, about in (
        ("--consumers", CONSUMERS_MAX, defaults.consumers, "members of the group"),
        ("--partitions", PARTITIONS_MAX, defaults.partitions, "of the topic that they consume"),
        ("--rate", RATE_MAX, defaults.rate, "records per second, over all partitions"),
    ):
        demo.add_argument(name, type=_count(most), metavar="N", default=default, help=about)
    demo.add_argument(
        "--assignor",
        choices=ASSIGNORS,
        default=defaults.assignor,
        help="partition.assignment.strategy of the classic members",
    )
    demo.add_argument("--static", action="store_true", help="members with a group.instance.id")
    demo.add_argument("--json", action="store_true", help="one JSON document on stdout")
    demo.add_argument(
        "--log-format", choices=get_args(logs.LogFormat), default="console", help="on stderr"
    )
    demo.add_argument(
        "--log-level", choices=get_args(logs.LogLevel), default="info", help="least that is shown"
    )


def _addresses(text: str) -> tuple[settings.Address, ...]:
    try:
        return settings.addresses(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _spark_setting(text: str) -> tuple[str, str]:
    name, is_set, value = text.partition("=")
    if not is_set or not name.startswith("spark."):
        raise argparse.ArgumentTypeError(f"{text!r} is not spark.NAME=VALUE")
    return name, value


def _prefix(text: str) -> str:
    if not PREFIX.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} cannot begin a topic's name: letters, digits, dots, _ and -, at most 200"
        )
    return text


def _count(most: int, *, least: int = 1) -> Callable[[str], int]:
    def count(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {most}")
        return int(text)

    return count


def _say(line: str) -> None:
    sys.stderr.write(f"groupferry: {line}\n")
