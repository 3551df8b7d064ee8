"""What each command looks like in use: the end of its `--help`."""

from collections.abc import Mapping
from typing import NamedTuple


class Example(NamedTuple):
    """A command line, and what it is for."""

    line: str
    purpose: str


EXAMPLES: Mapping[str, tuple[Example, ...]] = {
    "serve": (
        Example(
            "groupferry serve --upstream kafka-1:9092,kafka-2:9092 --listen 0.0.0.0:19092"
            " --advertise gateway.example",
            "in front of a cluster, for clients on other machines",
        ),
        Example("groupferry serve --config groupferry.toml", "with the settings of a file"),
    ),
    "check": (
        Example(
            "groupferry check --upstream kafka-1:9092", "can groups be hosted on this cluster?"
        ),
        Example("groupferry check --config groupferry.toml --json", "the same for a program"),
    ),
    "adopt": (
        Example("groupferry adopt orders --dry-run", "can it be adopted now, and if not, why?"),
        Example("groupferry adopt orders", "take it over from the cluster"),
    ),
    "release": (
        Example("groupferry release orders --dry-run", "can it be released now, and if not, why?"),
        Example("groupferry release --all", "give every hosted group back to the cluster"),
        Example(
            "groupferry release --all --offline --config groupferry.toml",
            "free the groups of a gateway that no longer runs",
        ),
    ),
    "hold": (Example("groupferry hold orders", "stop the roll where it is"),),
    "pause": (Example("groupferry pause orders", "let no partition move for now"),),
    "allow": (Example("groupferry allow orders", "continue the roll"),),
    "roll": (
        Example("groupferry roll orders", "its consumers are about to be restarted one by one"),
        Example("groupferry roll orders --end", "they have been"),
    ),
    "drain": (Example("groupferry drain", "before the machine is restarted"),),
    "restart": (
        Example("groupferry restart", "each process of a fleet in turn, while the others serve"),
        Example("groupferry restart --process 2", "only one that takes too much memory"),
    ),
    "gateways": (
        Example("groupferry gateways", "which processes serve, and which shards has each?"),
        Example("groupferry gateways --json", "the same for a program"),
    ),
    "remove": (
        Example("groupferry remove --dry-run", "would it send all clients to the cluster?"),
        Example("groupferry remove", "send them there without a restart"),
    ),
    "groups": (
        Example("groupferry groups", "which groups are there, and what do they wait for?"),
        Example("groupferry groups --sort lag --columns group,lag,behind", "who is behind?"),
        Example("groupferry groups --json", "the same for a program"),
    ),
    "describe": (
        Example("groupferry describe orders", "its members, and who owns what"),
        Example("groupferry describe orders --lag", "and how far each partition is behind"),
    ),
    "client": (Example("groupferry client orders-2", "which groups is it a member of?"),),
    "readiness": (
        Example("groupferry readiness", "which groups are ready for the new protocol?"),
        Example("groupferry readiness orders --json", "one group, for a program"),
    ),
    "watch": (
        Example("groupferry watch", "all groups, until Ctrl-C"),
        Example("groupferry watch orders", "one group while it is rolled"),
    ),
    "offsets": (
        Example("groupferry offsets reset orders --to earliest --dry-run", "what would change?"),
        Example(
            "groupferry offsets reset orders --to 2026-11-29T03:00:00Z",
            "read again from three in the morning",
        ),
        Example("groupferry offsets delete orders --topic retired", "forget a topic"),
    ),
    "state": (
        Example("groupferry state --group orders", "what the state folder says about a group"),
        Example("groupferry state --upstream kafka-1:9092", "the state log in the cluster"),
    ),
    "events": (
        Example("groupferry events --group orders", "what happened to a group"),
        Example("groupferry events --follow --json", "new events for a program"),
    ),
    "demo": (
        Example("groupferry demo", "a roll there and back on this machine"),
        Example("groupferry demo --upstream kafka-1:9092", "the same on your cluster"),
        Example("groupferry demo --story --upstream kafka-1:9092", "insert, roll and remove"),
    ),
    "verdict": (
        Example("groupferry verdict gateway-1/events gateway-2/events", "two gateways, judged"),
    ),
    "report": (
        Example("groupferry report events --output report", "a page and tables from a folder"),
        Example("groupferry report events --output report --check", "fail unless it was safe"),
    ),
}


def format_examples(command: str) -> str:
    """The examples of a command, for its `--help`."""
    lines = [f"  {line}\n      {purpose}" for line, purpose in EXAMPLES.get(command, ())]
    return "\n".join(["", "examples:", *lines, ""]) if lines else ""
