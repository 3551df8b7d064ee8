"""Known defects of moving groups, each with a world in which it breaks a promise.

Each world is led to the moment before the defect; from there the search plays every free move. The
letters are those of issue 43. This command prints which of them break a promise today:

    python -m tests.simulation.explorer.defects
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from gateway.hosting.states import AdoptionStage, ReleaseStage
from tests.simulation.explorer.beginning import begin
from tests.simulation.explorer.checks import check
from tests.simulation.explorer.moves import free_moves
from tests.simulation.explorer.playing import play
from tests.simulation.explorer.promises import BrokenPromiseError
from tests.simulation.explorer.search import Bounds, Finding, Search
from tests.simulation.explorer.shape import SMALL_3_9, Shape
from tests.simulation.explorer.small_consumers import Kind
from tests.simulation.explorer.small_world import Move, World
from tests.simulation.explorer.worlds import WORLDS

MOVES_MAX = 300
BOUNDS = Bounds(transitions_max=20_000)
_LIBRDKAFKA = (("a", Kind.LIBRDKAFKA), ("b", Kind.LIBRDKAFKA))
_MIXED = (("a", Kind.LIBRDKAFKA), ("b", Kind.COOPERATIVE))
_AND_A_NATIVE = (("a", Kind.COOPERATIVE), ("n", Kind.NATIVE))


class Lead:
    """Leads a world to the moment before a defect, and keeps the moves that it has played."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.moves: list[Move] = []

    def play(self, *moves: Move) -> None:
        """Make these moves. Raises BrokenPromiseError."""
        for move in moves:
            self.moves.append(move)
            play(self.world, move)
            check(self.world)

    def to(self, stage: AdoptionStage | ReleaseStage) -> None:
        """Let everything continue until the move is at this stage. Raises ValueError if it never
        is, or BrokenPromiseError."""
        for _ in range(MOVES_MAX):
            if self.world.port.stage is stage:
                return
            self.play(free_moves(self.world)[0])
        raise ValueError(f"the move never comes to {stage}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A world that breaks a promise because of a defect, and words of that promise."""

    name: str
    letter: str
    what: str
    shape: Shape
    lead: Callable[[Lead], None]
    breaks: str


def _shape(name: str, *, budgets: dict[str, int] | None = None, **changes: object) -> Shape:
    return replace(WORLDS[name], budgets=budgets or {}, **changes)  # type: ignore[arg-type]


def _released_after_a_restart(lead: Lead) -> None:
    lead.play("restart", "release")


def _play_release(lead: Lead) -> None:
    lead.play("release")


def _killed_in_an_adoption(lead: Lead) -> None:
    lead.play("adopt")
    lead.to(AdoptionStage.RELEASING)
    lead.play("restart")


def _coordinator_fails_while_the_anchor_joins(lead: Lead) -> None:
    lead.play("adopt")
    lead.to(AdoptionStage.ANCHORING)
    lead.play("fail leader")


def _native_starts_in_a_release(lead: Lead) -> None:
    lead.play("release")
    lead.to(ReleaseStage.GATHERING)
    lead.play("start n")


def _play_reconfiguration(lead: Lead) -> None:
    lead.play("reconfigure")


def _native_joins_before_the_release_is_written(lead: Lead) -> None:
    lead.play("start n", "send n", "release")


DEFECTS = (
    Defect(
        name="released-before-the-anchor-is-back",
        letter="a",
        what="a release that is ordered after a restart ends while the old anchor is in the group",
        shape=_shape("release"),
        lead=_released_after_a_restart,
        breaks="ends because of INCONSISTENT_GROUP_PROTOCOL",
    ),
    Defect(
        name="native-released-before-the-anchor-is-back",
        letter="a",
        what="the same release of a mixed group",
        shape=_shape("release-native"),
        lead=_released_after_a_restart,
        breaks="ends because of GROUP_ID_NOT_FOUND",
    ),
    Defect(
        name="pending-id-blocks-the-first-round",
        letter="b",
        what="a client that sends its JoinGroup without id twice blocks the round of a release",
        shape=_shape("release", consumers=_MIXED),
        lead=_play_release,
        breaks="has no owner",
    ),
    Defect(
        name="undoing-without-end",
        letter="c",
        what="a client that repeats its claim keeps an adoption from being undone",
        shape=_shape("adopt", consumers=_LIBRDKAFKA),
        lead=_killed_in_an_adoption,
        breaks="has no owner",
    ),
    Defect(
        name="undoing-waits-for-a-parked-join",
        letter="c",
        what="an adoption is undone only when the JoinGroup of its anchor is answered",
        shape=_shape("adopt"),
        lead=_coordinator_fails_while_the_anchor_joins,
        breaks="has no owner",
    ),
    Defect(
        name="native-starts-in-a-release",
        letter="d",
        what="a native consumer that starts while a classic group is released is killed",
        shape=_shape("release", consumers=_AND_A_NATIVE, starts_later=("n",)),
        lead=_native_starts_in_a_release,
        breaks="n ends because of GROUP_ID_NOT_FOUND",
    ),
    Defect(
        name="overtaken-join-fences-a-static-member",
        letter="e",
        what="the held JoinGroup of a closed connection is relayed after a newer one",
        shape=_shape("release", are_static=True, budgets={"hang-up": 1}),
        lead=_play_release,
        breaks="ends because of FENCED_INSTANCE_ID",
    ),
    Defect(
        name="forwarded-by-a-setting",
        letter="f",
        what="a restart with the hosted group in groups_forward fences all, and leaves the anchor",
        shape=_shape("release"),
        lead=_play_reconfiguration,
        breaks="ends because of INCONSISTENT_GROUP_PROTOCOL",
    ),
    Defect(
        name="mixed-group-forwarded-by-a-setting",
        letter="f",
        what="the same restart with a mixed group",
        shape=_shape("release-native"),
        lead=_play_reconfiguration,
        breaks="ends because of GROUP_ID_NOT_FOUND",
    ),
    Defect(
        name="native-joins-before-the-release-is-written",
        letter="h",
        what="a group with a native member is released to a cluster that takes none",
        shape=_shape("release", consumers=_AND_A_NATIVE, starts_later=("n",), profile=SMALL_3_9),
        lead=_native_joins_before_the_release_is_written,
        breaks="n ends because of UNSUPPORTED_VERSION",
    ),
)


def hunt(defect: Defect) -> Finding | None:
    """Play every interleaving from the moment before the defect. Returns the broken promise with
    all moves that lead to it."""
    lead = Lead(begin(defect.shape))
    try:
        defect.lead(lead)
    except BrokenPromiseError as broken:
        return Finding(reason=str(broken), moves=tuple(lead.moves))
    finding = Search(defect.shape, BOUNDS).run(first=lead.world).finding
    return finding and replace(finding, moves=(*lead.moves, *finding.moves))


def main() -> None:
    """Print what each defect breaks."""
    for defect in DEFECTS:
        finding = hunt(defect)
        outcome = "keeps all promises" if finding is None else finding.reason
        print(f"{defect.letter}. {defect.name}: {outcome}", flush=True)
        if finding is not None:
            print(f"   {' / '.join(finding.moves)}", flush=True)


if __name__ == "__main__":
    main()
