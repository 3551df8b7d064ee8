"""ConsumerGroupHeartbeat: validation, epochs, subscriptions, reconciliation (rules 3.2 to 3.10)."""

from unittest.mock import ANY

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.both_sides import TOLD, BothSides, Owned
from tests.support.differential.deviations import UNKNOWN_NATIVE, Deviation, Unlike
from tests.support.differential.profiles import MAIN, TIGHT
from tests.support.differential.script import script

ALL_FOO: Owned = {"foo": (0, 1, 2)}


@script()
async def requests_that_are_invalid(both: BothSides) -> None:
    await both.native("", 0, error=ErrorCode.INVALID_REQUEST)
    await both.native("  ", 0, error=ErrorCode.INVALID_REQUEST)
    await both.native("N", 0, instance="")
    await both.native("N", 0, instance=" ")
    await both.native("N", 0, rack="")
    await both.native("N", 0, rack=" ")
    await both.native("N", 0, bare=True)
    await both.native("N", 0, bare=True, rebalance_timeout_ms=1_000)
    await both.native("N", 0, bare=True, rebalance_timeout_ms=1_000, owned={})
    await both.native("N", 0, bare=True, topics=["foo"], owned={})
    await both.native("N", 0, owned={"foo": (0,)})
    await both.native("N", 0, owned={"foo": ()})
    await both.native("N", -3)
    await both.native("N", -(2**31))
    await both.native("N", -2)
    await both.native("N", 2**31 - 1, unlike=UNKNOWN_NATIVE)
    await both.native("", -1)
    await both.native("", 1)
    await both.native("", 5, version=0)
    await both.native("", -1, version=0)
    await both.native("", -2, version=0)
    await both.native("", -2, version=0, instance="i1")
    await both.native("N", 0, assignor="")
    await both.native("N", 0, assignor="unheard-of")
    await both.native("N", 0, assignor="Uniform")
    await both.native("N", 0, rebalance_timeout_ms=0)
    await both.native("N", -1)
    await both.native("N", 0, rebalance_timeout_ms=-2)
    await both.native("N", -1)
    await both.native("N", 0, rebalance_timeout_ms=2**31 - 1)
    await both.list()


@script()
async def an_old_client_is_given_its_id(both: BothSides) -> None:
    await both.native("N", 0, member_id="", version=0)
    await both.native("N", version=0)
    await both.native("N", 0, version=0)
    await both.native("M", 0, member_id="brought-along", version=0, topics=["bar"])
    await both.describe(version=0)
    await both.native("N", -1, version=0)
    await both.describe(version=1)


@script()
async def subscriptions_of_every_kind(both: BothSides) -> None:
    await both.native("N", 0, topics=[])
    await both.describe()
    await both.native("N", topics=["foo"])
    await both.native("N", topics=["foo", "foo"])
    await both.native("N", topics=["nowhere"])
    await both.native("N", owned={})
    await both.native("N", topics=["nowhere", "bar"], owned={})
    await both.native("N", topics=[])
    await both.native("N", owned={})
    await both.describe()
    await both.native("M", 0, topics=["", " ", "a topic with blanks", "x" * 300])
    await both.describe()
    await both.native("M", topics=["foo", "bar", "zar", "six"])
    await both.describe()


@script()
async def an_empty_subscription_does_not_bump(both: BothSides) -> None:
    await both.native("N", 0, topics=[])
    await both.native("M", 0, topics=[])
    await both.native("N", 0)
    await both.native("M", 0, topics=[])
    await both.describe()


@script()
async def a_member_without_topics_gets_no_share(both: BothSides) -> None:
    await both.native("M", 0, topics=["bar"])
    await both.native("N", 0, topics=["foo"])
    await both.native("N", -1)
    idle = Unlike(deviation=Deviation.NO_TOPICS, kafka={"groups": ANY}, gateway={"groups": ANY})
    await both.native("O", 0, topics=[])
    await both.describe(unlike=idle)


@script()
async def two_members_share(both: BothSides) -> None:
    await both.native("M", 0)
    await both.native("N", 0)
    await both.native("M")
    await both.native("N")
    await both.native("M", owned=ALL_FOO)
    await both.native("N")
    await both.native("M", owned=TOLD)
    await both.native("N")
    await both.native("N", owned=TOLD)
    await both.full("M")
    await both.describe()


@script()
async def epochs_that_are_wrong(both: BothSides) -> None:
    await both.native("M", 0)
    await both.native("N", 0)
    await both.native("M", 4)
    await both.native("M", 1)
    await both.native("M", 3)
    await both.native("M", owned=TOLD)
    await both.describe()
    await both.native("M", 2)
    await both.native("M", 2, owned={"foo": (0,)})
    await both.native("M", 2, owned={})
    await both.native("M", 2, owned=ALL_FOO)
    await both.native("M", 3)
    await both.native("M", 2, owned={})
    await both.native("N", 2, owned={})
    await both.native("nobody", 3)
    await both.native("nobody", -1)
    await both.native("M", 0)
    proves = Unlike(
        deviation=Deviation.LATE_JOIN, kafka={"member_epoch": 4}, gateway={"member_epoch": 3}
    )
    await both.native("M", 0, topics=["bar"], unlike=proves)


@script()
async def the_previous_epoch_again(both: BothSides) -> None:
    await both.native("M", 0)
    await both.native("M", 0, topics=["foo", "bar"])
    await both.native("M", 2, owned={"foo": (0, 1, 2)})
    await both.native("M", 2, owned={"foo": (0, 1, 2), "bar": (0, 1)})
    await both.native("M", 2, owned={"foo": (0, 1, 2), "zar": (0,)})
    await both.native("M", 2, owned={"nowhere": (0,)})
    await both.native("M", 2, owned={"foo": (17,)})
    await both.describe()
    goes_on = Unlike(
        deviation=Deviation.UNHEARD, kafka={"member_epoch": 4}, gateway={"member_epoch": 3}
    )
    await both.native("M", 2, topics=["bar"], owned={}, unlike=goes_on)


@script()
async def a_slow_revocation(both: BothSides) -> None:
    await both.native("M", 0)
    await both.native("N", 0)
    await both.native("O", 0)
    await both.native("M")
    await both.native("M", owned=ALL_FOO)
    await both.describe()
    await both.native("N")
    await both.native("M", owned={"foo": (0, 1)})
    await both.native("M", owned={"foo": (0, 2)})
    await both.native("O")
    await both.describe()
    await both.native("M", owned={"foo": (0,)})
    await both.native("O")
    await both.native("N", owned={})
    await both.describe()


@script()
async def a_new_target_while_revoking(both: BothSides) -> None:
    await both.native("M", 0, topics=["six"])
    await both.native("N", 0, topics=["six"])
    await both.native("M", owned={"six": range(6)})
    await both.native("N", topics=["foo"])
    await both.native("M", owned={"six": range(6)})
    await both.describe()
    await both.native("M", owned={"six": (0, 1, 2)})
    await both.native("N", owned={})
    await both.describe()
    await both.native("N", owned={"foo": (0, 1, 2)})  # otherwise D67: it may not have received them
    await both.native("M", topics=["six", "foo"])
    await both.native("N")
    await both.native("N", owned={"foo": (2,)})
    await both.native("M")
    await both.native("M", topics=["foo"], owned={"six": range(6), "foo": (0,)})
    await both.describe()


@script()
async def a_member_owns_partitions_without_a_grant(both: BothSides) -> None:
    await both.native("M", 0)
    await both.native("N", 0)
    await both.native("M", owned={"six": (4,), "foo": (0, 1, 2, 9), "nowhere": (0,)})
    await both.native("M", owned={"six": (4,), "nowhere": (0,)})
    await both.native("N", owned={"foo": (0, 1)})
    await both.describe()


@script()
async def the_assignor_that_most_prefer(both: BothSides) -> None:
    await both.native("M", 0, assignor="uniform")
    await both.describe()
    await both.native("N", 0, assignor="range")
    await both.native("O", 0, assignor="range")
    await both.describe()
    await both.native("M", assignor="range")
    await both.native("N", assignor="uniform")
    bumps = Unlike(
        deviation=Deviation.ANOTHER_ASSIGNOR,
        kafka={"member_epoch": 4},
        gateway={"member_epoch": 5},
    )
    await both.native("O", assignor="uniform", unlike=bumps)


@script()
async def timeouts_and_clients_bump_nothing(both: BothSides) -> None:
    await both.native("M", 0, rack="r1")
    await both.native("M", rack="r1", rebalance_timeout_ms=1_000)
    await both.native("M", rack=None)
    await both.describe()
    await both.native("other-client", 2, member_id="M")
    await both.describe()


@script()
async def another_rack_bumps_the_epoch(both: BothSides) -> None:
    await both.native("M", 0, rack="r1")
    bumps = Unlike(
        deviation=Deviation.ANOTHER_RACK,
        kafka={"member_epoch": 2},
        gateway={"member_epoch": 3},
    )
    await both.native("M", rack="r2", unlike=bumps)


@script()
async def all_members_leave_and_return(both: BothSides) -> None:
    for group_epoch in (5, 9, 13):
        await both.native("M", 0)
        await both.native("N", 0)
        await both.native("M", -1)
        await both.native("M", -1)
        await both.native("N")
        await both.native("N", -1)
        emptied = Unlike.empty_group(group_epoch=group_epoch, assignment_epoch=group_epoch - 1)
        await both.describe(unlike=emptied)
        await both.list()
    await both.delete_group()
    await both.native("M", 0)
    await both.describe()


@script()
async def the_answer_carries_the_assignment_when_it_must(both: BothSides) -> None:
    await both.native("M", 0)
    await both.native("M")
    await both.full("M")
    await both.native("M", owned=TOLD)
    await both.native("M", owned=TOLD, rebalance_timeout_ms=5_000)
    await both.native("M", topics=["foo"], owned=TOLD)
    await both.native("M", topics=["foo"], rebalance_timeout_ms=5_000)
    await both.native("M", regex="", owned=TOLD, rebalance_timeout_ms=5_000)
    await both.native("M", 0)


@script()
async def uniform_where_there_is_no_choice(both: BothSides) -> None:
    await both.native("M", 0, topics=["foo"], assignor="uniform")
    await both.native("N", 0, topics=["bar"], assignor="uniform")
    await both.native("M")
    await both.native("N")
    await both.describe()
    await both.native("N", -1)
    await both.native("M", topics=["foo", "bar"])
    await both.describe()


@script(TIGHT)
async def targets_are_computed_once_per_interval(both: BothSides) -> None:
    await both.native("M", 0)
    await both.native("N", 0)
    await both.describe()
    await both.native("M")
    await both.native("N")
    await both.sleep(1.8)
    await both.native("N")
    await both.native("M")
    await both.describe()
    await both.native("N", -1)
    await both.native("M")
    await both.describe()


@script(TIGHT)
async def silent_native_members_expire(both: BothSides) -> None:
    await both.native("M", 0)
    await both.native("N", 0)
    await both.sleep(2)
    await both.native("M")
    await both.sleep(2)
    await both.native("N", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await both.native("M", error=0)
    await both.describe()


@script(MAIN)
async def a_member_that_does_not_revoke_in_time_is_removed(both: BothSides) -> None:
    await both.native("M", 0, rebalance_timeout_ms=1_200)
    await both.native("N", 0)
    await both.native("M", owned=TOLD)
    await both.sleep(1.8)
    await both.native("M", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await both.native("N")
    await both.describe()


@script(TIGHT)
async def a_group_that_is_full(both: BothSides) -> None:
    await both.native("M", 0)
    await both.native("N", 0, instance="i1")
    await both.native("O", 0, error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await both.native("O", 0, instance="i2", error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await both.join("O", version=3, error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await both.join("O", error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await both.join("O", "made-up", error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await both.native("M", 0)
    await both.native("N", 0)
    await both.native("O", 3)
    await both.native("M", -1)
    await both.sleep(1.8)  # longer than the assignment interval, so both sides compute a target
    await both.native("O", 0)
