"""How a case of the trial at the group's coordinator is declared, and what many cases begin with.

A case is a script for real brokers and simulated ones: what a gateway meets there, and what the
profiles say. CU, G, CE and CR are the anchors of the trial of anchors: of type `consumer` with
unreadable bytes, of type `groupferry`, readable without topics, and readable with the group's
topics.
"""

from collections.abc import Callable
from typing import Any

from gateway.hosting.identity import Gateway
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.broker_profiles import PROFILES
from tests.simulation.trial_stage import DELAY_MS, BothBrokers, Case, Play
from tests.support.differential.both_sides import Owned
from tests.support.group_values import subscription

CASES: dict[str, Case] = {}

OURS = Gateway(log_id="log-1", run_id=7)
X = OURS.join_metadata.protocol
UNREADABLE = OURS.join_metadata.metadata
ALL_FOO: Owned = {"foo": (0, 1, 2)}
RANGE = ("range", subscription(("foo",)))
PRIVATE = (X, UNREADABLE)
ANCHOR = "groupferry-anchor"
CU: dict[str, Any] = {"instance": ANCHOR, "protocols": (PRIVATE,)}
CE: dict[str, Any] = {"instance": ANCHOR, "protocols": ((X, subscription(())),)}
CR: dict[str, Any] = {"instance": ANCHOR, "protocols": ((X, subscription(("foo",))),)}
G: dict[str, Any] = {
    "instance": "groupferry",
    "protocol_type": "groupferry",
    "protocols": (("log-1", b"run 7"),),
}
ALL_RELEASES = tuple(profile.release for profile in PROFILES)
DELAY_S = DELAY_MS / 1000


def case(*releases: str, is_delayed: bool = False, moves: bool = False) -> Callable[[Play], Play]:
    """Register a script, by default for all releases."""

    def register(play: Play) -> Play:
        CASES[play.__name__] = Case(
            name=play.__name__,
            play=play,
            releases=frozenset(releases or ALL_RELEASES),
            is_delayed=is_delayed,
            moves=moves,
        )
        return play

    return register


async def hold(both: BothBrokers, join_metadata: dict[str, Any], who: str = "anchor") -> None:
    """Have an anchor join the empty group, and sync."""
    await both.join(who, "", **join_metadata)
    await sync_anchor(both, join_metadata, who)


async def sync_anchor(
    both: BothBrokers, join_metadata: dict[str, Any], who: str = "anchor"
) -> None:
    """End the anchor's round."""
    await both.sync(
        who,
        {who: ALL_FOO},
        instance=join_metadata["instance"],
        protocol_type=join_metadata.get("protocol_type", "consumer"),
        protocol=join_metadata["protocols"][0][0],
        error=0,
    )


async def beat_anchor(
    both: BothBrokers, join_metadata: dict[str, Any], who: str = "anchor"
) -> None:
    """Say that the anchor is there."""
    await both.beat(who, instance=join_metadata["instance"])


async def commit(both: BothBrokers, who: str, **how: Any) -> None:
    """Commit an offset of the first partition."""
    await both.commit(who, {"foo": {0: 1}}, **how)


async def knock(both: BothBrokers, who: str = "outsider") -> None:
    """Have a classic consumer try to get in."""
    joined = await both.join(who)
    if joined is not None and joined["error_code"] == ErrorCode.MEMBER_ID_REQUIRED:
        await both.join(who)
