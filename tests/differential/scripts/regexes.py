"""Members that subscribe with regular expressions (rule 3.13; scenario 34)."""

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.deviations import Deviation, Unlike
from tests.support.differential.duel import TOLD, Duel
from tests.support.differential.script import script

RESOLVED_S = 1.0
"""By then each side has completed a resolution."""
APART_S = 10.5
"""The time after which a resolution is repeated."""


async def join_and_resolve(duel: Duel, who: str, regex: str) -> None:
    """A member whose regular expression the group's first resolution resolves."""
    await duel.native(who, 0, regex=regex)
    await duel.sleep(RESOLVED_S)
    await duel.native(who)


@script()
async def a_regex_is_resolved_after_the_answer(duel: Duel) -> None:
    await duel.native("N", 0, regex="fo+")
    await duel.sleep(RESOLVED_S)
    await duel.native("N")
    await duel.describe()
    await duel.native("N", regex="fo+", owned=TOLD, rebalance_timeout_ms=60_000)
    await duel.commit("N", {"foo": {0: 5}})
    await duel.delete_offsets(
        {"foo": (0,), "bar": (0,)}, unlike=Unlike.deletions({"foo": {0: 86}, "bar": {0: 0}})
    )
    await duel.list()
    await duel.native("N", -1)
    await duel.list()


@script()
async def invalid_regexes(duel: Duel) -> None:
    for regex in ("(", "[b-a]", "(?=a)", "(a)\\1", "a{1001}", "*", "\\Z"):
        await duel.native("N", 0, regex=regex, error=ErrorCode.INVALID_REGULAR_EXPRESSION)
    await duel.native("N", 0, regex="")
    for regex in ("(", "a**("):
        await duel.native("N", regex=regex, error=ErrorCode.INVALID_REGULAR_EXPRESSION)
    await duel.native("M", regex="(", epoch=1, error=ErrorCode.UNKNOWN_MEMBER_ID)
    await duel.describe()


@script()
async def the_complete_regex_must_match(duel: Duel) -> None:
    regex = "fo|^ba|^(?i)ZAR$|[[:alpha:]]i\\pL|\\Qba\\E(?P<end>r)|foo\\z.*x"
    await join_and_resolve(duel, "A", regex)
    await duel.describe()


@script()
async def names_and_a_regex(duel: Duel) -> None:
    await duel.native("N", 0, topics=("bar",), regex="fo+")
    await duel.sleep(RESOLVED_S)
    await duel.native("N")
    await duel.native("N", topics=())
    await duel.native("N", owned={"foo": (0, 1, 2)})
    await duel.describe()


@script()
async def a_regex_that_is_shared(duel: Duel) -> None:
    await join_and_resolve(duel, "A", "fo+")
    await duel.native("B", 0, regex="fo+")
    await duel.native("C", 0, topics=("foo",))
    await duel.describe()
    await duel.native("A", owned=TOLD)
    await duel.native("A", -1)
    await duel.native("B", owned=TOLD)
    await duel.native("B", -1)
    await duel.native("C")
    await duel.describe()


@script()
async def another_regex(duel: Duel) -> None:
    await join_and_resolve(duel, "A", "fo+")
    await duel.native("A", regex="b.r", owned={"foo": (0, 1, 2)})
    await duel.describe()
    await duel.native("A", owned={})
    await duel.sleep(RESOLVED_S)
    await duel.native("A")
    await duel.describe()


@script()
async def a_regex_is_cleared(duel: Duel) -> None:
    await join_and_resolve(duel, "A", "fo+")
    await duel.commit("A", {"foo": {0: 5}})
    await duel.native("A", regex="", owned={"foo": (0, 1, 2)})
    await duel.native("A", owned={})
    await duel.describe()
    await duel.delete_offsets({"foo": (0,)}, unlike=Unlike.deletions({"foo": {0: 0}}))


@script()
async def a_regex_that_matches_nothing(duel: Duel) -> None:
    await join_and_resolve(duel, "A", "none-at-all")
    await duel.describe()
    await duel.native("A", regex="none-either")
    await duel.native("A")
    await duel.sleep(RESOLVED_S)
    await duel.native("A")
    await duel.describe()


@script()
async def a_regex_without_matches_leaves_partitions(duel: Duel) -> None:
    await join_and_resolve(duel, "A", "fo+")
    await duel.native("B", 0, topics=("foo",))
    await duel.native("A", owned=TOLD)
    await duel.native("A", owned=TOLD)
    await duel.native("B")
    await duel.native("A", regex="none-at-all", owned={})
    await duel.native("A")
    await duel.sleep(RESOLVED_S)
    await duel.native(
        "B",
        unlike=Unlike(
            deviation=Deviation.EMPTY_REGEX,
            kafka={"member_epoch": 3},
            gateway={"member_epoch": 4},
        ),
    )


@script()
async def a_classic_member_takes_over_a_regex(duel: Duel) -> None:
    await duel.native("A", 0, regex="fo+", instance="i1")
    await duel.sleep(RESOLVED_S)
    await duel.native("A")
    await duel.native("B", 0, topics=("bar",))
    await duel.join("C", instance="i1", topics=("foo",), owned={"foo": (0, 1, 2)})
    await duel.sync("C", instance="i1")
    await duel.describe()
    await duel.native("A", instance="i1", error=ErrorCode.FENCED_INSTANCE_ID)


@script()
async def a_regex_joins_a_classic_group(duel: Duel) -> None:
    await duel.enter({"A": {"foo": (0, 1, 2)}})
    await duel.native("N", 0, regex="fo+")
    await duel.describe()
    await duel.beat("A")
    await duel.sleep(RESOLVED_S)
    await duel.beat("A")
    await duel.native("N")
    await duel.beat("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await duel.describe()


@script()
async def a_topic_that_appears(duel: Duel) -> None:
    topic = f"made-for-{duel.run}"
    await duel.native("N", 0, regex=f"{topic}.*")
    await duel.sleep(RESOLVED_S)
    await duel.native("N")
    await duel.create_topic(topic, 2)
    await duel.sleep(APART_S)
    await duel.native("N")
    await duel.sleep(RESOLVED_S)
    await duel.native("N")
    await duel.describe()
