"""The flags of all commands. `argument_values.py` validates their values."""

import argparse
import os
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn, TypeAlias, get_args

from gateway import logs, settings
from gateway.commands import examples
from gateway.commands.argument_values import (
    check_group_id,
    check_jars,
    check_prefix,
    number_between,
    parse_addresses,
    parse_columns,
    parse_offset_target,
    parse_process_number,
    parse_spark_setting,
)
from gateway.commands.list_layout import COLUMN_NAMES
from gateway.demo.outcome import Options
from gateway.events.event import Level
from gateway.settings_sources import ENVIRONMENT_PREFIX, add_flags

ASSIGNORS = ("range", "roundrobin", "cooperative-sticky")
CONSUMERS_MAX = 64
PARTITIONS_MAX = 1024
RATE_MAX = 20_000
TOP_MAX = 1_000
KEEP_DAYS_MAX = 36_500
INTERVAL_S_MAX = 24 * 60 * 60

WRONG_CALL = 2
"""The exit status for wrong arguments."""

_SERVE_EPILOG = f"""\
Each setting can be given in three places: as a flag, as an environment variable
({ENVIRONMENT_PREFIX} and its name, such as {ENVIRONMENT_PREFIX}LISTEN), and by
its name in the TOML file that --config or {ENVIRONMENT_PREFIX}CONFIG names. A flag
overrides a variable, and a variable overrides the file. Kafka's own configs keep their dotted names
in the file.
"""


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser that prints errors as one line, and ends its help with examples."""

    def format_help(self) -> str:
        return super().format_help() + examples.format_examples(self.prog.rpartition(" ")[2])

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_CALL, f"groupferry: {message}; see {self.prog} --help\n")


class _PrintCompletion(argparse.Action):
    """Prints a script that completes commands and flags."""

    def __call__(
        self, parser: argparse.ArgumentParser, *args: object, **_kwargs: object
    ) -> NoReturn:
        import shtab  # not needed otherwise

        (_namespace, shell, *_) = args
        print(shtab.complete(parser, f"{shell}"))
        parser.exit()


class _ShowsDefaults(argparse.ArgumentDefaultsHelpFormatter):
    """Shows the defaults of options that have one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_default = action.default is not None and action.default is not False
        return super()._get_help_string(action) if has_default else action.help


_Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"


def parser() -> argparse.ArgumentParser:
    """The parser of all commands; `command` in its result is the name of the command."""
    whole = _Parser(
        prog="groupferry",
        description="Moves a live Kafka consumer group to the new rebalance protocol and back.",
        allow_abbrev=False,
    )
    whole.add_argument("--version", action="version", version=f"groupferry {version('groupferry')}")
    whole.add_argument(
        "--print-completion",
        action=_PrintCompletion,
        choices=("bash", "zsh", "fish"),
        default=argparse.SUPPRESS,
        help="print the completion script of this shell, and exit",
    )
    commands = whole.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    for add in (
        _add_serve,
        _add_check,
        _add_adopt,
        _add_release,
        _add_hold,
        _add_pause,
        _add_allow,
        _add_roll,
        _add_drain,
        _add_restart,
        _add_remove,
        _add_gateways,
        _add_groups,
        _add_describe,
        _add_client,
        _add_readiness,
        _add_watch,
        _add_offsets,
        _add_state,
        _add_events,
        _add_demo,
        _add_verdict,
        _add_report,
    ):
        add(commands)
    return whole


def _add_serve(commands: _Commands) -> None:
    serve = commands.add_parser(
        "serve",
        usage="groupferry serve --upstream HOST:PORT[,...] [--SETTING VALUE ...]",
        help="run the gateway",
        description="Run the gateway in front of a Kafka cluster.",
        epilog=_SERVE_EPILOG,
        allow_abbrev=False,
    )
    add_flags(serve)


def _add_check(commands: _Commands) -> None:
    check = commands.add_parser(
        "check",
        help="try what a cluster offers the gateway, before anything is changed",
        description="Try what the gateway will need from a cluster: every broker under its"
        " advertised name, apis, permissions, limits, clocks, a transaction into a topic of its"
        " own, and its member in a temporary group, which outsiders must not enter. Prints what"
        " works, what does not, what that costs and what to do. Topic and group are removed again."
        " The settings are those of groupferry serve.",
        allow_abbrev=False,
    )
    check.add_argument("--upstream", metavar="HOST:PORT[,...]", help="bootstrap servers")
    check.add_argument("--config", metavar="FILE", help="TOML file with settings")
    check.add_argument("--json", action="store_true", help="print the findings as JSON")


def _add_adopt(commands: _Commands) -> None:
    adopt = commands.add_parser(
        "adopt",
        help="take over a live group from the cluster, without a rebalance",
        description="Have the running gateway take over a live group from the cluster. All its"
        " consumers must be behind the gateway, and they notice nothing. A group without members"
        " is hosted from its next join on. If the group cannot be adopted, print why, one line for"
        " each obstacle, and change nothing.",
        allow_abbrev=False,
    )
    adopt.add_argument("group", type=check_group_id, metavar="GROUP", help="its group id")
    adopt.add_argument(
        "--dry-run", action="store_true", help="only say whether the group can be adopted now"
    )
    _add_state_dir(adopt)


def _add_release(commands: _Commands) -> None:
    release = commands.add_parser(
        "release",
        help="give a hosted group back to the cluster, in one rebalance",
        description="Have the running gateway give a hosted group back to the cluster. Its"
        " consumers see one ordinary rebalance, and the gateway relays their requests from then"
        " on. If the group cannot be released, print why, one line for each obstacle, and change"
        " nothing.",
        allow_abbrev=False,
    )
    which = release.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "group", nargs="?", type=check_group_id, metavar="GROUP", help="its group id"
    )
    which.add_argument(
        "--all", action="store_true", help="release all hosted or adopted groups, also empty ones"
    )
    how = release.add_mutually_exclusive_group()
    how.add_argument(
        "--dry-run", action="store_true", help="only say whether the group can be released now"
    )
    how.add_argument(
        "--offline",
        action="store_true",
        help="free the group without a running gateway, once its members' sessions are over; the"
        " settings are those of groupferry serve, from its file and the environment",
    )
    release.add_argument("--config", metavar="FILE", help="for --offline: TOML file with settings")
    release.add_argument(
        "--upstream", metavar="HOST:PORT[,...]", help="for --offline: bootstrap servers"
    )
    _add_state_dir(release)


def _add_hold(commands: _Commands) -> None:
    _add_policy(
        commands,
        "hold",
        "let no further consumer of a group switch to the new protocol",
        "Hold the migration of a group, hosted or forwarded. It gets no more native members than it"
        " has: the next consumer that joins by the new protocol is refused and told why. Consumers"
        " may go back to the classic protocol, and restart.",
    )


def _add_pause(commands: _Commands) -> None:
    _add_policy(
        commands,
        "pause",
        "hold a group, and keep its target assignment as it is",
        "Hold the migration of a hosted group, and compute no new target assignment for it."
        " Partitions of members that leave have no owner until `groupferry allow`. A classic group"
        " has no target assignment: its leader assigns.",
    )


def _add_allow(commands: _Commands) -> None:
    _add_policy(
        commands,
        "allow",
        "end the hold or the pause of a group",
        "Let the consumers of a group switch to the new protocol.",
    )


def _add_roll(commands: _Commands) -> None:
    roll = _add_policy(
        commands,
        "roll",
        "say that the consumers of a group are being restarted one by one",
        "Announce a roll of a hosted group. The partitions of a consumer that leaves wait for its"
        " replacement, or are lent, so that no other consumer is disturbed. Without this command a"
        " roll is noticed at its first consumer that changes its protocol. It ends with --end, or"
        " an hour after its last step.",
    )
    roll.add_argument("--end", action="store_true", help="the roll is over")


def _add_policy(commands: _Commands, name: str, short: str, long: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=short, description=long, allow_abbrev=False)
    command.add_argument("group", type=check_group_id, metavar="GROUP", help="its group id")
    command.add_argument(
        "--dry-run", action="store_true", help="only say whether the gateway would do it"
    )
    _add_state_dir(command)
    return command


def _add_drain(commands: _Commands) -> None:
    drain = commands.add_parser(
        "drain",
        help="end the running gateway once the requests under way are answered",
        description="Have the running gateway say at /readyz that it is not ready, take no more"
        " connections, answer the requests under way, and end, as SIGTERM does. Its groups stay in"
        " the state log for the next gateway.",
        allow_abbrev=False,
    )
    drain.add_argument("--dry-run", action="store_true", help="only say what it would end")
    _add_state_dir(drain)


def _add_restart(commands: _Commands) -> None:
    restart = commands.add_parser(
        "restart",
        help="restart the processes of a fleet one after another, without a rebalance",
        description="Have the running gateway restart its processes one after another. Each leaves"
        " new clients and then its groups to the others, answers the requests under way, ends, and"
        " gets its groups back once it serves again. It needs --processes. For another version of"
        " groupferry, or settings that are read at the start only, restart the gateway itself.",
        allow_abbrev=False,
    )
    restart.add_argument(
        "--process", type=parse_process_number, metavar="N", help="only this one, from 0"
    )
    restart.add_argument(
        "--dry-run", action="store_true", help="only say which processes it would restart"
    )
    _add_state_dir(restart)


def _add_gateways(commands: _Commands) -> None:
    gateways = commands.add_parser(
        "gateways",
        help="list the processes of a running gateway, and what each serves",
        description="List the processes of a running gateway: since when each serves, which shards"
        " of the groups it has, and when it last took or gave up one.",
        allow_abbrev=False,
    )
    _add_state_dir(gateways)
    gateways.add_argument("--json", action="store_true", help="print a JSON line per process")


def _add_remove(commands: _Commands) -> None:
    remove = commands.add_parser(
        "remove",
        help="send all clients to the cluster, without a restart where they can",
        description="Have the running gateway tell its clients to resolve their bootstrap.servers"
        " again, and close their connections. Point those names at the cluster first. No group may"
        " be hosted. Clients that do not know how are listed: they need a restart. The exit status"
        " is 0 once no client is left.",
        allow_abbrev=False,
    )
    remove.add_argument(
        "--dry-run",
        action="store_true",
        help="only say whether it can begin, and which clients need a restart",
    )
    _add_state_dir(remove)


def _add_groups(commands: _Commands) -> None:
    groups = commands.add_parser(
        "groups",
        help="list the groups of a running gateway, and what each waits for",
        description="List the groups that a running gateway knows: who answers for each, how far"
        " it is with the new protocol, and what it waits for.",
        allow_abbrev=False,
    )
    _add_layout(groups)
    _add_state_dir(groups)
    groups.add_argument("--json", action="store_true", help="print a JSON line per group")


def _add_layout(command: argparse.ArgumentParser) -> None:
    names = ", ".join(COLUMN_NAMES)
    command.add_argument(
        "--columns", type=parse_columns, metavar="NAME[,...]", default=(), help=f"among {names}"
    )
    command.add_argument(
        "--sort",
        choices=COLUMN_NAMES,
        metavar="NAME",
        default="group",
        help="the column to sort by; figures come in falling order",
    )


def _add_describe(commands: _Commands) -> None:
    describe = commands.add_parser(
        "describe",
        help="show one group of a running gateway with its members",
        description="Show how one group stands: its members with protocol, phase, client software"
        " and partitions, and what the group waits for.",
        allow_abbrev=False,
    )
    describe.add_argument("group", type=check_group_id, metavar="GROUP", help="its group id")
    describe.add_argument("--lag", action="store_true", help="also show the lag of each partition")
    _add_state_dir(describe)
    describe.add_argument("--json", action="store_true", help="print one JSON line")


def _add_client(commands: _Commands) -> None:
    client = commands.add_parser(
        "client",
        help="show one client over all its groups",
        description="Show which groups a client is a member of, what it owns there, and how far it"
        " is behind.",
        allow_abbrev=False,
    )
    client.add_argument("client", type=check_group_id, metavar="CLIENT-ID", help="its client id")
    _add_state_dir(client)
    client.add_argument("--json", action="store_true", help="print a JSON line for each process")


def _add_readiness(commands: _Commands) -> None:
    readiness = commands.add_parser(
        "readiness",
        help="say whether a group is ready for the new protocol, and what is in the way",
        description="For each group that a running gateway has seen, or for one: whether it can be"
        " adopted, whether it converts, what its consumers have to change, and which client"
        " versions are known to be defective with the new protocol. Nothing is changed.",
        allow_abbrev=False,
    )
    readiness.add_argument(
        "group", type=check_group_id, metavar="GROUP", nargs="?", help="its group id"
    )
    _add_state_dir(readiness)
    readiness.add_argument("--json", action="store_true", help="print a JSON line per group")


def _add_watch(commands: _Commands) -> None:
    watch = commands.add_parser(
        "watch",
        help="watch a group, or all of them, until Ctrl-C",
        description="Show a group live: its members over time, and the latest events. Without"
        " GROUP, show the list of groups. Without a terminal, print a line at each change.",
        allow_abbrev=False,
    )
    watch.add_argument(
        "group", type=check_group_id, metavar="GROUP", nargs="?", help="its group id"
    )
    _add_layout(watch)
    _add_state_dir(watch)
    watch.add_argument("--json", action="store_true", help="print a JSON line at each change")


def _add_offsets(commands: _Commands) -> None:
    offsets = commands.add_parser(
        "offsets",
        help="reset or delete committed offsets of a group without members",
        description="Reset or delete the committed offsets of a group, through the gateway and by"
        " the cluster's own apis. The group must have no members. TLS and SASL are as the"
        " environment says, as for an upstream.",
        allow_abbrev=False,
    )
    offsets.add_argument("action", choices=("reset", "delete"), help="what to do with them")
    offsets.add_argument("group", type=check_group_id, metavar="GROUP", help="its group id")
    offsets.add_argument(
        "--to",
        type=parse_offset_target,
        metavar="WHERE",
        help="for reset: earliest, latest, an offset, +N or -N records, or a time such as"
        " 2026-11-29T03:00:00Z",
    )
    offsets.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="NAME",
        help="only this topic; can be repeated. A reset is by default one of all topics with"
        " committed offsets",
    )
    offsets.add_argument(
        "--gateway",
        type=parse_addresses,
        metavar="HOST:PORT",
        help="where clients reach the gateway; by default the one that runs with --state-dir says",
    )
    offsets.add_argument("--dry-run", action="store_true", help="only show what would change")
    _add_state_dir(offsets)


def _add_state(commands: _Commands) -> None:
    state = commands.add_parser(
        "state",
        help="print the contents of the state log, one JSON line per record",
        description="Print the records of the state log, even while a gateway is running.",
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


def _add_events(commands: _Commands) -> None:
    events = commands.add_parser(
        "events",
        help="print what happened to the groups",
        description="Print the events in a gateway's folder, even while it is running.",
        allow_abbrev=False,
    )
    _add_state_dir(events)
    events.add_argument("--group", metavar="ID", help="events of this group only")
    events.add_argument("--follow", action="store_true", help="also print new events, until Ctrl-C")
    events.add_argument(
        "--details", action="store_true", help="print every event with its fields, not the story"
    )
    events.add_argument("--json", action="store_true", help="print the JSON lines unchanged")


def _add_demo(commands: _Commands) -> None:
    demo = commands.add_parser(
        "demo",
        help="roll a group of real consumers there and back on this machine",
        description="Roll a group of real consumers to the new protocol and back, one by one.",
        formatter_class=_ShowsDefaults,
        allow_abbrev=False,
    )
    demo.add_argument(
        "--upstream",
        type=parse_addresses,
        metavar="HOST:PORT[,...]",
        help="a cluster to use instead of the embedded one",
    )
    demo.add_argument(
        "--story",
        action="store_true",
        help="also insert the gateway before the roll, and remove it afterwards",
    )
    demo.add_argument(
        "--kafka-home",
        type=Path,
        metavar="DIR",
        default=os.environ.get("KAFKA_HOME"),
        help="for --story without --upstream: a folder with Apache Kafka, to run one broker"
        " (default: KAFKA_HOME)",
    )
    demo.add_argument(
        "--prefix",
        type=check_prefix,
        help="prefix for the temporary topic and group in that cluster (default: a random one)",
    )
    demo.add_argument(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="a new folder for the gateway's state and events (default: none)",
    )
    defaults = Options()
    for name, limit, default, about in (
        ("--consumers", CONSUMERS_MAX, defaults.consumers, "members of the group"),
        ("--partitions", PARTITIONS_MAX, defaults.partitions, "partitions of the topic"),
        ("--rate", RATE_MAX, defaults.rate, "records per second, over all partitions"),
    ):
        demo.add_argument(
            name, type=number_between(limit), metavar="N", default=default, help=about
        )
    demo.add_argument(
        "--assignor",
        choices=ASSIGNORS,
        default=defaults.assignor,
        help="partition.assignment.strategy of the classic members",
    )
    demo.add_argument("--static", action="store_true", help="members with a group.instance.id")
    demo.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    demo.add_argument(
        "--log-format", choices=get_args(logs.LogFormat), default="console", help="format on stderr"
    )
    demo.add_argument(
        "--log-level", choices=get_args(Level), default="info", help="lowest level shown"
    )


def _add_verdict(commands: _Commands) -> None:
    verdict = commands.add_parser(
        "verdict",
        help="judge the events of any number of gateways, without Spark",
        description="Print the verdict of groupferry report, and exit with status 1 unless it is"
        " SAFE. Needs neither Spark nor Java, but the events must fit into memory.",
        allow_abbrev=False,
    )
    verdict.add_argument(
        "inputs", nargs="+", metavar="INPUT", help="a file, folder or pattern with events"
    )


def _add_report(commands: _Commands) -> None:
    report = commands.add_parser(
        "report",
        help="report on a migration, from the events of any number of gateways",
        description="Make tables and a page from events: many of them with Spark.",
        formatter_class=_ShowsDefaults,
        allow_abbrev=False,
    )
    report.add_argument(
        "inputs", nargs="*", metavar="INPUT", help="a file, folder, pattern or URL with events"
    )
    report.add_argument(
        "--events-topic",
        metavar="TOPIC",
        help="a topic with events, instead of INPUTs or in addition",
    )
    report.add_argument(
        "--upstream",
        type=parse_addresses,
        metavar="HOST:PORT[,...]",
        help="the cluster of the topic",
    )
    report.add_argument(
        "--output", required=True, metavar="DIR", help="folder for the page and the tables"
    )
    report.add_argument(
        "--check",
        action="store_true",
        help="exit with status 1 unless the verdict is SAFE",
    )
    report.add_argument(
        "--top", type=number_between(TOP_MAX), metavar="N", default=50, help="groups with a section"
    )
    report.add_argument(
        "--follow",
        action="store_true",
        help="process new events until Ctrl-C; started again, continue there",
    )
    report.add_argument(
        "--interval",
        type=number_between(INTERVAL_S_MAX),
        metavar="S",
        default=60,
        help="with --follow: shortest time between two reports, in seconds",
    )
    report.add_argument(
        "--keep-days",
        type=number_between(KEEP_DAYS_MAX),
        metavar="D",
        help="with --follow: days for which lines are kept; by default for ever",
    )
    report.add_argument(
        "--jars",
        type=check_jars,
        metavar="JAR[,...]",
        help="jars for Spark, such as the connector of an object store",
    )
    _add_spark_options(report)


def _add_state_dir(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--state-dir",
        metavar="DIR",
        default=os.environ.get(f"{ENVIRONMENT_PREFIX}STATE_DIR"),
        help="the gateway's state folder (default: the gateway's own default)",
    )


def _add_spark_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--master",
        metavar="URL",
        help="Spark's master (default: local[*], or that of spark-defaults.conf)",
    )
    command.add_argument(
        "--conf",
        type=parse_spark_setting,
        action="append",
        metavar="KEY=VALUE",
        help="a Spark setting; can be repeated",
    )
