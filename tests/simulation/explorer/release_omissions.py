"""What a release must not leave out, planted one at a time. The explorer has to find each."""

from dataclasses import replace

import pytest

from gateway.hosting.holders import Holders
from gateway.hosting.release import Releasing
from gateway.hosting.states import ReleaseStage
from tests.simulation.explorer.planted_omissions import Omission, hunt, shows_in


@shows_in("release", "under the anchor's ids gets", {"release": 1, "commit": 1})
def the_anchor_leaves_before_commits_are_answered(patch: pytest.MonkeyPatch) -> None:
    """The anchor's place is given up as soon as all members have."""
    real = Releasing.is_ready
    patch.setattr(Releasing, "is_ready", lambda each, commits: real(each, commits * 0))


@shows_in("release", " own ", {"release": 1})
def a_member_that_does_not_come_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    """The group is opened though a member may still hold partitions."""

    def is_ready(releasing: Releasing, commits: int) -> bool:
        is_somebody_back = bool(releasing._returning) or not releasing.holders
        return releasing.stage is ReleaseStage.RECALLING and is_somebody_back and not commits

    patch.setattr(Releasing, "is_ready", is_ready)


@shows_in("release-native", " own ", {"release": 1})
def a_native_member_is_done_once_it_is_told(patch: pytest.MonkeyPatch) -> None:
    """A native member counts as one without partitions as soon as it has been told."""

    def heard(holders: Holders, member_id: str, _now_ms: int) -> None:
        holders.let_go(member_id)

    patch.setattr(Holders, "mark_seen", heard)


@shows_in("release-native", "has no owner", {"release": 1})
def native_members_meet_the_anchor(patch: pytest.MonkeyPatch) -> None:
    """The group is opened for native members as for classic ones."""
    patch.setattr(Releasing, "_can_open", property(lambda _each: True))


@shows_in("release-native-restart", "ends because of")
def a_killed_gateway_leaves_no_word_of_native_members(patch: pytest.MonkeyPatch) -> None:
    """The log does not store that a native member has to be the first in the cluster."""
    store = Releasing._store
    patch.setattr(
        Releasing,
        "_store",
        lambda each, event: store(
            each, replace(event, release=replace(event.release, is_native_due=False))
        ),
    )


@shows_in("release-outsider", " own ")
def a_group_that_is_opened_at_once(patch: pytest.MonkeyPatch) -> None:
    """The group is opened to outsiders while its members give up their partitions."""

    def is_ready(releasing: Releasing, commits: int) -> bool:
        return releasing.stage is ReleaseStage.RECALLING and not commits

    patch.setattr(Releasing, "is_ready", is_ready)


OMISSIONS = [each for each in vars().copy().values() if isinstance(each, Omission)]


def main() -> None:
    """Print the table of `gateway/docs/release.md`."""
    for each in OMISSIONS:
        report = hunt(each)
        moves = len(report.finding.moves) if report.finding else "none"
        print(f"| `{each.name}` | {each.what} | {report.transitions:,} | {moves} |", flush=True)


if __name__ == "__main__":
    main()
