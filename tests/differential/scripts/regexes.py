"""Members that subscribe with regular expressions (rule 3.13; scenario 34)."""

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.both_sides import TOLD, BothSides
from tests.support.differential.deviations import Deviation, Unlike
from tests.support.differential.script import script

RESOLVED_S = 1.0
"""By then each side has completed a resolution."""
APART_S = 10.5
"""The time after which a resolution is repeated."""


async def join_and_resolve(both: BothSides, who: str, regex: str) -> None:
    """A member whose regular expression the group's first resolution resolves."""
    await both.native(who, 0, regex=regex)
    await both.sleep(RESOLVED_S)
    await both.native(who)


@script()
async def a_regex_is_resolved_after_the_answer(both: BothSides) -> None:
    await both.native("N", 0, regex="fo+")
    await both.sleep(RESOLVED_S)
    await both.native("N")
    await both.describe()
    await both.native("N", regex="fo+", owned=TOLD, rebalance_timeout_ms=60_000)
    await both.commit("N", {"foo": {0: 5}})
    await both.delete_offsets(
        {"foo": (0,), "bar": (0,)}, unlike=Unlike.deletions({"foo": {0: 86}, "bar": {0: 0}})
    )
    await both.list()
    await both.native("N", -1)
    await both.list()


@script()
async def invalid_regexes(both: BothSides) -> None:
    for regex in ("(", "[b-a]", "(?=a)", "(a)\\1", "a{1001}", "*", "\\Z"):
        await both.native("N", 0, regex=regex, error=ErrorCode.INVALID_REGULAR_EXPRESSION)
    await both.native("N", 0, regex="")
    for regex in ("(", "a**("):
        await both.native("N", regex=regex, error=ErrorCode.INVALID_REGULAR_EXPRESSION)
    await both.native("M", regex="(", epoch=1, error=ErrorCode.UNKNOWN_MEMBER_ID)
    await both.describe()


@script()
async def the_complete_regex_must_match(both: BothSides) -> None:
    regex = "fo|^ba|^(?i)ZAR$|[[:alpha:]]i\\pL|\\Qba\\E(?P<end>r)|foo\\z.*x"
    await join_and_resolve(both, "A", regex)
    await both.describe()


@script()
async def names_and_a_regex(both: BothSides) -> None:
    await both.native("N", 0, topics=("bar",), regex="fo+")
    await both.sleep(RESOLVED_S)
    await both.native("N")
    await both.native("N", topics=())
    await both.native("N", owned={"foo": (0, 1, 2)})
    await both.describe()


@script()
async def a_regex_that_is_shared(both: BothSides) -> None:
    await join_and_resolve(both, "A", "fo+")
    await both.native("B", 0, regex="fo+")
    await both.native("C", 0, topics=("foo",))
    await both.describe()
    await both.native("A", owned=TOLD)
    await both.native("A", -1)
    await both.native("B", owned=TOLD)
    await both.native("B", -1)
    await both.native("C")
    await both.describe()


@script()
async def another_regex(both: BothSides) -> None:
    await join_and_resolve(both, "A", "fo+")
    await both.native("A", regex="b.r", owned={"foo": (0, 1, 2)})
    await both.describe()
    await both.native("A", owned={})
    await both.sleep(RESOLVED_S)
    await both.native("A")
    await both.describe()


@script()
async def a_regex_is_cleared(both: BothSides) -> None:
    await join_and_resolve(both, "A", "fo+")
    await both.commit("A", {"foo": {0: 5}})
    await both.native("A", regex="", owned={"foo": (0, 1, 2)})
    await both.native("A", owned={})
    await both.describe()
    await both.delete_offsets({"foo": (0,)}, unlike=Unlike.deletions({"foo": {0: 0}}))


@script()
async def a_regex_that_matches_nothing(both: BothSides) -> None:
    await join_and_resolve(both, "A", "none-at-all")
    await both.describe()
    await both.native("A", regex="none-either")
    await both.native("A")
    await both.sleep(RESOLVED_S)
    await both.native("A")
    await both.describe()


@script()
async def a_regex_without_matches_leaves_partitions(both: BothSides) -> None:
    await join_and_resolve(both, "A", "fo+")
    await both.native("B", 0, topics=("foo",))
    await both.native("A", owned=TOLD)
    await both.native("A", owned=TOLD)
    await both.native("B")
    await both.native("A", regex="none-at-all")
    await both.native("A", owned={})
    await both.sleep(RESOLVED_S)
    await both.native(
        "B",
        unlike=Unlike(
            deviation=Deviation.EMPTY_REGEX,
            kafka={"member_epoch": 3},
            gateway={"member_epoch": 4},
        ),
    )


@script()
async def a_classic_member_takes_over_a_regex(both: BothSides) -> None:
    await both.native("A", 0, regex="fo+", instance="i1")
    await both.sleep(RESOLVED_S)
    await both.native("A")
    await both.native("B", 0, topics=("bar",))
    await both.join("C", instance="i1", topics=("foo",), owned={"foo": (0, 1, 2)})
    await both.sync("C", instance="i1")
    await both.describe()
    await both.native("A", instance="i1", error=ErrorCode.FENCED_INSTANCE_ID)


@script()
async def a_regex_joins_a_classic_group(both: BothSides) -> None:
    await both.enter({"A": {"foo": (0, 1, 2)}})
    await both.native("N", 0, regex="fo+")
    await both.describe()
    await both.beat("A")
    await both.sleep(RESOLVED_S)
    await both.beat("A")
    await both.native("N")
    await both.beat("A", error=ErrorCode.REBALANCE_IN_PROGRESS)
    await both.describe()


@script()
async def a_topic_that_appears(both: BothSides) -> None:
    topic = f"made-for-{both.run}"
    await both.native("N", 0, regex=f"{topic}.*")
    await both.sleep(RESOLVED_S)
    await both.native("N")
    await both.create_topic(topic, 2)
    await both.sleep(APART_S)
    await both.native("N")
    await both.sleep(RESOLVED_S)
    await both.native("N")
    await both.describe()
