"""The commands: `groupferry serve`, `check`, `adopt`, `release`, `hold`, `pause`, `allow`, `roll`,
`drain`, `restart`, `remove`, `gateways`, `groups`, `describe`, `client`, `readiness`, `watch`,
`offsets`, `state`, `events`, `demo`, `verdict`, `report`, `--version`.

Errors are printed to stderr, one line per reason, never as a traceback. The exit status is 0 for
success, 1 for a failed run, 2 for wrong arguments, 128 plus its number after a signal.

Each command loads its own modules: those of `serve` would double the start of the others.
"""

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from gateway import logs, settings
from gateway.addresses import Address, parse_addresses
from gateway.board.views import GatewayLine
from gateway.cluster.errors import UpstreamError
from gateway.commands.arguments import WRONG_CALL, parser
from gateway.commands.list_layout import ListLayout
from gateway.control.client import fetch_view, find_processes, give
from gateway.control.control_socket import NoControlSocket
from gateway.control.messages import (
    AdoptCommand,
    AllowCommand,
    CommandRefused,
    DescribeGateway,
    DrainCommand,
    HoldCommand,
    PauseCommand,
    PolicyCommand,
    RestartCommand,
    RollCommand,
)
from gateway.journal.line_files import FOLDER_NAME, folders_below
from gateway.loading import loading
from gateway.pipeline import PipelineError, installed
from gateway.readable import escape
from gateway.security import UNPROTECTED, Security, security_of
from gateway.settings_sources import load

if TYPE_CHECKING:
    from gateway.demo.outcome import DemoOutcome
    from gateway.demo.upstream import OpenUpstream
    from gateway.pipeline.report.verdict import SafetyVerdict

_FAILED = 1


def run(argv: Sequence[str] | None) -> int:
    """Run the command and return its exit status."""
    status = 0
    try:
        options = parser().parse_args(argv)
        command = _COMMANDS[options.command]
        del options.command
        status = command(options)
        print(end="", flush=True)  # otherwise Python would report a broken pipe at its end
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except settings.SettingsError as error:
        for line in error.lines:
            _print_error(line)
        return WRONG_CALL
    except PipelineError as error:
        _print_error(str(error))
        return _FAILED
    return status


def _serve(options: argparse.Namespace) -> int:
    with loading():
        from gateway import serve

    chosen = load(vars(options))
    logs.configure(chosen.log_format, chosen.log_level, counts_repeats=True)
    return serve.run(chosen, partial(load, vars(options)))


def _check(options: argparse.Namespace) -> int:
    with loading():
        from gateway.commands import check

    names = ("config", "upstream")
    given = {name: getattr(options, name) for name in names if getattr(options, name)}
    chosen = load(given)
    logs.configure(chosen.log_format, "error")
    return check.run(chosen, as_json=options.json)


def _adopt(options: argparse.Namespace) -> int:
    group_id, is_trial = options.group, options.dry_run
    try:
        folder = settings.state_folder(options.state_dir)
        outcome = trio.run(give, folder, AdoptCommand(group_id=group_id, dry_run=is_trial))
    except (ValueError, NoControlSocket, CommandRefused) as error:
        _print_error(f"{group_id} is not adopted: {error}")
        return _FAILED
    refusal = "cannot be adopted yet" if is_trial else "is not adopted"
    for reason in outcome.reasons:
        _print_error(f"{group_id} {refusal}: {reason}")
    if outcome.reasons:
        return _FAILED
    if is_trial and not outcome.is_marked:
        line = f"{group_id} can be adopted"
    elif outcome.is_marked:
        what = "can be" if is_trial else "is"
        since = "without members in the cluster," if outcome.is_known else "it is not known yet;"
        line = (
            f"{group_id} {what} adopted: {since} it is hosted from its next join on, until it is"
            " released"
        )
    else:
        line = f"{group_id} is adopted; its calls were held for {outcome.held_ms} ms"
    sys.stdout.write(f"{escape(line)}\n")
    return 0


def _release(options: argparse.Namespace) -> int:
    if options.offline:
        return _release_offline(options)
    if options.config or options.upstream:
        _print_error("--config and --upstream go with --offline")
        return WRONG_CALL
    with loading():
        from gateway.commands import release

    try:
        folder = settings.state_folder(options.state_dir)
        return trio.run(release.run, folder, options.group, options.dry_run)
    except (ValueError, NoControlSocket, CommandRefused) as error:
        _print_error(f"{options.group or 'no group'} is released: {error}")
        return _FAILED


def _release_offline(options: argparse.Namespace) -> int:
    with loading():
        from gateway.commands import offline_release

    names = ("config", "upstream", "state_dir")
    given = {name: getattr(options, name) for name in names if getattr(options, name)}
    chosen = load(given)
    logs.configure(chosen.log_format, "error")
    return offline_release.run(chosen, options.group)


def _set_policy(make: Callable[..., PolicyCommand], options: argparse.Namespace) -> int:
    group_id = options.group
    try:
        folder = settings.state_folder(options.state_dir)
        outcome = trio.run(give, folder, make(group_id=group_id, dry_run=options.dry_run))
        reasons = outcome.reasons
    except (ValueError, NoControlSocket, CommandRefused) as error:
        reasons = (str(error),)
    for reason in reasons:
        _print_error(f"{group_id} stays as it is: {reason}")
    if reasons:
        return _FAILED
    outcome_text = f"it {'would be' if options.dry_run else 'is'} {_POLICIES[outcome.policy]}"
    sys.stdout.write(f"{escape(group_id)}: {outcome_text}\n")
    return 0


def _roll(options: argparse.Namespace) -> int:
    return _set_policy(partial(RollCommand, end=options.end), options)


def _drain(options: argparse.Namespace) -> int:
    try:
        folder = settings.state_folder(options.state_dir)
        outcome = trio.run(give, folder, DrainCommand(dry_run=options.dry_run))
    except (ValueError, NoControlSocket, CommandRefused) as error:
        _print_error(f"the gateway is not drained: {error}")
        return _FAILED
    verb = "would end" if options.dry_run else "ends"
    sys.stdout.write(
        f"the gateway {verb} {outcome.connections} connections;"
        f" {outcome.hosted} hosted groups stay in its state log\n"
    )
    return 0


def _restart(options: argparse.Namespace) -> int:
    processes = None if options.process is None else (options.process,)
    command = RestartCommand(processes=processes, dry_run=options.dry_run)
    try:
        outcome = trio.run(give, settings.state_folder(options.state_dir), command)
    except (ValueError, NoControlSocket, CommandRefused) as error:
        _print_error(f"nothing is restarted: {error}")
        return _FAILED
    verb = "would be" if options.dry_run else "are"
    numbers = ", ".join(map(str, outcome.processes))
    sys.stdout.write(
        f"processes {numbers} {verb} restarted one after another; groupferry gateways shows how"
        " far it is\n"
    )
    return 0


def _gateways(options: argparse.Namespace) -> int:
    with loading():
        from gateway.commands import show_gateways

    return _ask_gateway(options, partial(show_gateways.run, as_json=options.json))


def _remove(options: argparse.Namespace) -> int:
    with loading():
        from gateway.commands import remove

    try:
        folder = settings.state_folder(options.state_dir)
        return trio.run(remove.run, folder, options.dry_run)
    except (ValueError, NoControlSocket, CommandRefused) as error:
        _print_error(f"the gateway is not removed: {error}")
        return _FAILED


def _groups(options: argparse.Namespace) -> int:
    with loading():
        from gateway.commands import show_board

    return _ask_gateway(
        options, partial(show_board.groups, as_json=options.json, layout=_layout(options))
    )


def _describe(options: argparse.Namespace) -> int:
    with loading():
        from gateway.commands import show_board

    ask = partial(
        show_board.describe,
        group_id=options.group,
        as_json=options.json,
        has_partitions=options.lag,
    )
    return _ask_gateway(options, ask)


def _client(options: argparse.Namespace) -> int:
    with loading():
        from gateway.commands import show_board

    ask = partial(show_board.client, client_id=options.client, as_json=options.json)
    return _ask_gateway(options, ask)


def _readiness(options: argparse.Namespace) -> int:
    with loading():
        from gateway.commands import show_board

    ask = partial(show_board.readiness, group_id=options.group, as_json=options.json)
    return _ask_gateway(options, ask)


def _watch(options: argparse.Namespace) -> int:
    with loading():
        from gateway.commands import show_board

    ask = partial(
        show_board.watch, group_id=options.group, as_json=options.json, layout=_layout(options)
    )
    return _ask_gateway(options, ask)


def _layout(options: argparse.Namespace) -> ListLayout:
    return ListLayout(columns=options.columns, sorted_by=options.sort)


def _ask_gateway(options: argparse.Namespace, ask: Callable[[Path], Awaitable[None]]) -> int:
    try:
        trio.run(ask, settings.state_folder(options.state_dir))
    except (ValueError, NoControlSocket, CommandRefused) as error:
        _print_error(str(error))
        return _FAILED
    return 0


def _demo(options: argparse.Namespace) -> int:
    with loading():
        from gateway.demo import summary
        from gateway.demo.borrowed_cluster import borrow_cluster, random_prefix
        from gateway.demo.gateway import run_demo_gateway
        from gateway.demo.mock_cluster import embed_cluster
        from gateway.demo.outcome import Options
        from gateway.demo.own_kafka import own_kafka
        from gateway.demo.run import Interrupted
        from gateway.demo.run import run as run_demo

    security = _security_for(options.upstream) if options.upstream else UNPROTECTED
    folder: Path | None = options.state_dir
    if reason := _why_no_demo(options, security):
        _print_error(reason)
        return WRONG_CALL
    open_upstream: OpenUpstream = embed_cluster
    if options.upstream:
        prefix = options.prefix or random_prefix()
        open_upstream = partial(borrow_cluster, options.upstream, prefix, access=security.own)
    elif options.story:
        open_upstream = partial(own_kafka, options.kafka_home)
    logs.configure(options.log_format, options.log_level)
    wanted = Options(
        consumers=options.consumers,
        partitions=options.partitions,
        assignor=options.assignor,
        static=options.static,
        rate=options.rate,
    )
    try:
        with _folder_of_demo(folder) as used:
            run_gateway = partial(run_demo_gateway, security=security, state_dir=used)
            commanded = used if options.story else None
            outcome = trio.run(run_demo, wanted, run_gateway, open_upstream, commanded)
            if outcome.totals is not None:
                outcome = _with_verdict(outcome, used / FOLDER_NAME)
    except Interrupted as interruption:
        _print_error(f"demo ended by {interruption}")
        return interruption.exit_status
    if options.json:
        sys.stdout.write(summary.as_json(outcome) + "\n")
    else:
        summary.show(outcome, rebalances=options.story)
        if folder is not None:
            sys.stdout.write(_report_line(folder) + "\n")
    if outcome.reason is not None:
        _print_error(f"demo failed: {outcome.reason}")
        return _FAILED
    return 0


def _why_no_demo(options: argparse.Namespace, security: Security) -> str | None:
    """Why the demo cannot run with these options; None if it can."""
    with loading():
        from gateway.demo.mock_cluster import RATE_PER_PARTITION_MAX
        from gateway.demo.own_kafka import why_not as why_no_kafka

    rate_max = options.partitions * RATE_PER_PARTITION_MAX
    if options.prefix and not options.upstream:
        return "--prefix: works only with --upstream"
    if options.story and options.static:
        return "--story: a group whose leader is static cannot be adopted; leave out --static"
    if options.story and security.own.tls is not None:
        return "--story: its consumers go without TLS; give a listener of the cluster without it"
    if options.story and not options.upstream and (reason := why_no_kafka(options.kafka_home)):
        return f"--story: {reason}"
    if not (options.story or options.upstream) and options.rate > rate_max:
        return (
            f"--rate: at most {rate_max} for {options.partitions} partitions"
            " in the embedded cluster"
        )
    if options.state_dir is not None and (reason := _why_unusable(options.state_dir)):
        return f"--state-dir: {reason}"
    return None


@contextmanager
def _folder_of_demo(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
    else:
        with tempfile.TemporaryDirectory(prefix="groupferry-demo-") as name:
            yield Path(name)


def _with_verdict(outcome: "DemoOutcome", events: Path) -> "DemoOutcome":
    """The outcome with the verdict on its events, which a successful run needs to be safe."""
    verdict = _judge_events([f"{events}"])
    reason = None if verdict.is_safe else "the verdict on its events is not safe"
    return replace(outcome, verdict=verdict.lines, reason=outcome.reason or reason)


def _why_unusable(folder: Path) -> str | None:
    """Why the demo cannot use this folder. Its cluster is new each time, and events of an earlier
    run would be taken for events of this one."""
    try:
        is_empty = not any(folder.iterdir())
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return None if is_empty else f"{folder} is not empty; give a new folder"


def _report_line(folder: Path) -> str:
    """The command that reports on the demo's events."""
    words = ["groupferry", "report", f"{folder / FOLDER_NAME}", "--output", f"{folder / 'report'}"]
    return shlex.join(words)


def _security_for(upstream: Sequence[Address]) -> Security:
    """The environment says how to connect, as for `serve`. Raises SettingsError."""
    return security_of(load({"upstream": ",".join(map(str, upstream))}))


def _offsets(options: argparse.Namespace) -> int:
    with loading():
        from gateway.commands import offsets

    if reason := _why_no_offsets(options):
        _print_error(reason)
        return WRONG_CALL
    try:
        addresses = options.gateway or _addresses_of_gateway(options.state_dir)
        common = (addresses, _security_for(addresses).own, options.group)
        act = (
            partial(offsets.delete, *common)
            if options.action == "delete"
            else partial(offsets.reset, *common, options.to)
        )
        trio.run(partial(act, frozenset(options.topic), dry_run=options.dry_run))
    except (ValueError, NoControlSocket, CommandRefused) as error:
        _print_error(f"{error}; or give --gateway")
        return _FAILED
    except (UpstreamError, offsets.OffsetsRefused) as error:
        _print_error(f"the offsets of {options.group} stay as they are: {error}")
        return _FAILED
    except offsets.OffsetsInDoubt as error:
        _print_error(f"the offsets of {options.group}: {error}")
        return _FAILED
    return 0


def _why_no_offsets(options: argparse.Namespace) -> str | None:
    """Why these options conflict; None if they do not."""
    if options.action == "reset":
        return None if options.to else "reset: needs --to, where the offsets are reset to"
    if options.to:
        return "--to: is only for reset"
    return None if options.topic else "delete: needs --topic, the topic whose offsets to delete"


def _addresses_of_gateway(state_dir: str | None) -> Sequence[Address]:
    """Where clients reach the gateway that runs with this folder. Raises ValueError,
    NoControlSocket, CommandRefused."""
    folder = settings.state_folder(state_dir)
    gateway = trio.run(fetch_view, find_processes(folder)[0], DescribeGateway(), GatewayLine)
    return parse_addresses(gateway.bootstrap)


def _state(options: argparse.Namespace) -> int:
    with loading():
        from gateway.commands import show_state
        from gateway.state_folder import StateFolderError
        from gateway.state_log.log import StateLogError, StateLogUnusable

    try:
        if options.upstream is not None:
            upstream = parse_addresses(options.upstream)
            access = _security_for(upstream).own
            show_state.print_topic(upstream, options.state_topic, options.group, access)
            return 0
        folder = settings.state_folder(options.state_dir)
        if show_state.print_folder(folder, options.group):
            return 0
    except (ValueError, StateFolderError, StateLogUnusable, StateLogError) as error:
        _print_error(str(error))
    else:
        _print_error(f"there is no state log in {folder}; see --state-dir")
    return _FAILED


def _events(options: argparse.Namespace) -> int:
    with loading():
        from gateway.commands import show_events

    try:
        state_folder = settings.state_folder(options.state_dir)
        if show_events.run(
            folders_below(state_folder),
            options.group,
            follows=options.follow,
            as_json=options.json,
            has_details=options.details,
        ):
            return 0
    except BrokenPipeError:  # concerns the output, not the files
        raise
    except (ValueError, OSError) as error:
        _print_error(str(error))
    else:
        _print_error(f"there are no events in {state_folder / FOLDER_NAME}; see --state-dir")
    return _FAILED


def _verdict(options: argparse.Namespace) -> int:
    verdict = _judge_events(options.inputs)
    sys.stdout.write("".join(f"{escape(line)}\n" for line in verdict.lines))
    return 0 if verdict.is_safe else _FAILED


def _judge_events(inputs: Sequence[str]) -> "SafetyVerdict":
    """The verdict on these events. Raises PipelineError."""
    with loading():
        from gateway.pipeline.quick_verdict import quick_verdict
    return quick_verdict(inputs)


def _report(options: argparse.Namespace) -> int:
    if reason := _conflict(options):
        _print_error(reason)
        return WRONG_CALL
    installed.require()
    with loading():
        from gateway.pipeline import command  # needs the extra
        from gateway.pipeline.sources import Sources
        from gateway.pipeline.topic import EventsTopic

    name, upstream = options.events_topic, options.upstream
    topic = None
    if name:
        access = _security_for(upstream).own
        topic = EventsTopic(name=name, upstream=upstream, access=access)
    sources = Sources(inputs=options.inputs, topic=topic)
    output, top, master = options.output, options.top, options.master
    on_spark = dict(options.conf or ())
    if options.jars:
        on_spark["spark.jars"] = options.jars
    if options.follow:
        interval_s, keep_days = options.interval, options.keep_days
        command.run_follow(sources, output, top=top, interval_s=interval_s, keep_days=keep_days)
    is_safe = command.run(sources, output, top=top, master=master, settings=on_spark)
    return 0 if is_safe or not options.check else _FAILED


def _conflict(report: argparse.Namespace) -> str | None:
    """Why these options of a report conflict; None if they do not."""
    if report.follow and report.check:
        return "--check: does not work with --follow, which has no final verdict"
    if report.follow and (report.master or report.conf or report.jars):
        return "--master, --conf and --jars: leave them out, --follow runs without Spark"
    if report.events_topic and not report.upstream:
        return "--events-topic: needs --upstream, the cluster of the topic"
    if report.upstream and not report.events_topic:
        return "--upstream: needs --events-topic, a topic in that cluster"
    if not (report.inputs or report.events_topic):
        return "nothing to report on: give an INPUT or --events-topic"
    return None


def _print_error(line: str) -> None:
    sys.stderr.write(f"groupferry: {escape(line)}\n")


_POLICIES = {
    "hold": "on hold: no further consumer switches to the new protocol",
    "pause": "paused: no further consumer switches, and the target assignment stays as it is",
    "allow": "allowed: its consumers may switch to the new protocol",
    "roll": "being rolled: the partitions of a consumer that leaves wait for its replacement",
    "end of roll": "no longer being rolled",
}
_COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "serve": _serve,
    "check": _check,
    "adopt": _adopt,
    "release": _release,
    "hold": partial(_set_policy, HoldCommand),
    "pause": partial(_set_policy, PauseCommand),
    "allow": partial(_set_policy, AllowCommand),
    "roll": _roll,
    "drain": _drain,
    "restart": _restart,
    "remove": _remove,
    "gateways": _gateways,
    "groups": _groups,
    "describe": _describe,
    "client": _client,
    "readiness": _readiness,
    "watch": _watch,
    "offsets": _offsets,
    "state": _state,
    "events": _events,
    "demo": _demo,
    "verdict": _verdict,
    "report": _report,
}
