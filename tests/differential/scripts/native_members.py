"""ConsumerGroupHeartbeat: validation, epochs, subscriptions, reconciliation (rules 3.2 to 3.10)."""

from unittest.mock import ANY

from kafka_codecs.error_codes import ErrorCode
from tests.support.differential.deviations import UNKNOWN_NATIVE, Deviation, Unlike
from tests.support.differential.duel import TOLD, Duel, Owned
from tests.support.differential.profiles import MAIN, TIGHT
from tests.support.differential.script import script

ALL_FOO: Owned = {"foo": (0, 1, 2)}


@script()
async def requests_that_are_invalid(duel: Duel) -> None:
    await duel.native("", 0, error=ErrorCode.INVALID_REQUEST)
    await duel.native("  ", 0, error=ErrorCode.INVALID_REQUEST)
    await duel.native("N", 0, instance="")
    await duel.native("N", 0, instance=" ")
    await duel.native("N", 0, rack="")
    await duel.native("N", 0, rack=" ")
    await duel.native("N", 0, bare=True)
    await duel.native("N", 0, bare=True, rebalance_timeout_ms=1_000)
    await duel.native("N", 0, bare=True, rebalance_timeout_ms=1_000, owned={})
    await duel.native("N", 0, bare=True, topics=["foo"], owned={})
    await duel.native("N", 0, owned={"foo": (0,)})
    await duel.native("N", 0, owned={"foo": ()})
    await duel.native("N", -3)
    await duel.native("N", -(2**31))
    await duel.native("N", -2)
    await duel.native("N", 2**31 - 1, unlike=UNKNOWN_NATIVE)
    await duel.native("", -1)
    await duel.native("", 1)
    await duel.native("", 5, version=0)
    await duel.native("", -1, version=0)
    await duel.native("", -2, version=0)
    await duel.native("", -2, version=0, instance="i1")
    await duel.native("N", 0, assignor="")
    await duel.native("N", 0, assignor="unheard-of")
    await duel.native("N", 0, assignor="Uniform")
    await duel.native("N", 0, rebalance_timeout_ms=0)
    await duel.native("N", -1)
    await duel.native("N", 0, rebalance_timeout_ms=-2)
    await duel.native("N", -1)
    await duel.native("N", 0, rebalance_timeout_ms=2**31 - 1)
    await duel.list()


@script()
async def an_old_client_is_given_its_id(duel: Duel) -> None:
    await duel.native("N", 0, member_id="", version=0)
    await duel.native("N", version=0)
    await duel.native("N", 0, version=0)
    await duel.native("M", 0, member_id="brought-along", version=0, topics=["bar"])
    await duel.describe(version=0)
    await duel.native("N", -1, version=0)
    await duel.describe(version=1)


@script()
async def subscriptions_of_every_kind(duel: Duel) -> None:
    await duel.native("N", 0, topics=[])
    await duel.describe()
    await duel.native("N", topics=["foo"])
    await duel.native("N", topics=["foo", "foo"])
    await duel.native("N", topics=["nowhere"])
    await duel.native("N", owned={})
    await duel.native("N", topics=["nowhere", "bar"], owned={})
    await duel.native("N", topics=[])
    await duel.native("N", owned={})
    await duel.describe()
    await duel.native("M", 0, topics=["", " ", "a topic with blanks", "x" * 300])
    await duel.describe()
    await duel.native("M", topics=["foo", "bar", "zar", "six"])
    await duel.describe()


@script()
async def an_empty_subscription_does_not_bump(duel: Duel) -> None:
    await duel.native("N", 0, topics=[])
    await duel.native("M", 0, topics=[])
    await duel.native("N", 0)
    await duel.native("M", 0, topics=[])
    await duel.describe()


@script()
async def a_member_without_topics_gets_no_share(duel: Duel) -> None:
    await duel.native("M", 0, topics=["bar"])
    await duel.native("N", 0, topics=["foo"])
    await duel.native("N", -1)
    idle = Unlike(deviation=Deviation.NO_TOPICS, kafka={"groups": ANY}, gateway={"groups": ANY})
    await duel.native("O", 0, topics=[])
    await duel.describe(unlike=idle)


@script()
async def two_members_share(duel: Duel) -> None:
    await duel.native("M", 0)
    await duel.native("N", 0)
    await duel.native("M")
    await duel.native("N")
    await duel.native("M", owned=ALL_FOO)
    await duel.native("N")
    await duel.native("M", owned=TOLD)
    await duel.native("N")
    await duel.native("N", owned=TOLD)
    await duel.full("M")
    await duel.describe()


@script()
async def epochs_that_are_wrong(duel: Duel) -> None:
    await duel.native("M", 0)
    await duel.native("N", 0)
    await duel.native("M", 4)
    await duel.native("M", 1)
    await duel.native("M", 3)
    await duel.native("M", owned=TOLD)
    await duel.describe()
    await duel.native("M", 2)
    await duel.native("M", 2, owned={"foo": (0,)})
    await duel.native("M", 2, owned={})
    await duel.native("M", 2, owned=ALL_FOO)
    await duel.native("M", 3)
    await duel.native("M", 2, owned={})
    await duel.native("N", 2, owned={})
    await duel.native("nobody", 3)
    await duel.native("nobody", -1)
    await duel.native("M", 0)
    proves = Unlike(
        deviation=Deviation.LATE_JOIN, kafka={"member_epoch": 4}, gateway={"member_epoch": 3}
    )
    await duel.native("M", 0, topics=["bar"], unlike=proves)


@script()
async def the_previous_epoch_again(duel: Duel) -> None:
    await duel.native("M", 0)
    await duel.native("M", 0, topics=["foo", "bar"])
    await duel.native("M", 2, owned={"foo": (0, 1, 2)})
    await duel.native("M", 2, owned={"foo": (0, 1, 2), "bar": (0, 1)})
    await duel.native("M", 2, owned={"foo": (0, 1, 2), "zar": (0,)})
    await duel.native("M", 2, owned={"nowhere": (0,)})
    await duel.native("M", 2, owned={"foo": (17,)})
    await duel.describe()
    goes_on = Unlike(
        deviation=Deviation.UNHEARD, kafka={"member_epoch": 4}, gateway={"member_epoch": 3}
    )
    await duel.native("M", 2, topics=["bar"], owned={}, unlike=goes_on)


@script()
async def a_slow_revocation(duel: Duel) -> None:
    await duel.native("M", 0)
    await duel.native("N", 0)
    await duel.native("O", 0)
    await duel.native("M")
    await duel.native("M", owned=ALL_FOO)
    await duel.describe()
    await duel.native("N")
    await duel.native("M", owned={"foo": (0, 1)})
    await duel.native("M", owned={"foo": (0, 2)})
    await duel.native("O")
    await duel.describe()
    await duel.native("M", owned={"foo": (0,)})
    await duel.native("O")
    await duel.native("N", owned={})
    await duel.describe()


@script()
async def a_new_target_while_revoking(duel: Duel) -> None:
    await duel.native("M", 0, topics=["six"])
    await duel.native("N", 0, topics=["six"])
    await duel.native("M", owned={"six": range(6)})
    await duel.native("N", topics=["foo"])
    await duel.native("M", owned={"six": range(6)})
    await duel.describe()
    await duel.native("M", owned={"six": (0, 1, 2)})
    await duel.native("N", owned={})
    await duel.describe()
    await duel.native("N", owned={"foo": (0, 1, 2)})  # otherwise D67: it may not have received them
    await duel.native("M", topics=["six", "foo"])
    await duel.native("N")
    await duel.native("N", owned={"foo": (2,)})
    await duel.native("M")
    await duel.native("M", topics=["foo"], owned={"six": range(6), "foo": (0,)})
    await duel.describe()


@script()
async def a_member_owns_partitions_without_a_grant(duel: Duel) -> None:
    await duel.native("M", 0)
    await duel.native("N", 0)
    await duel.native("M", owned={"six": (4,), "foo": (0, 1, 2, 9), "nowhere": (0,)})
    await duel.native("M", owned={"six": (4,), "nowhere": (0,)})
    await duel.native("N", owned={"foo": (0, 1)})
    await duel.describe()


@script()
async def the_assignor_that_most_prefer(duel: Duel) -> None:
    await duel.native("M", 0, assignor="uniform")
    await duel.describe()
    await duel.native("N", 0, assignor="range")
    await duel.native("O", 0, assignor="range")
    await duel.describe()
    await duel.native("M", assignor="range")
    await duel.native("N", assignor="uniform")
    bumps = Unlike(
        deviation=Deviation.ASSIGNOR_OR_RACK,
        kafka={"member_epoch": 4},
        gateway={"member_epoch": 5},
    )
    await duel.native("O", assignor="uniform", unlike=bumps)


@script()
async def timeouts_and_clients_bump_nothing(duel: Duel) -> None:
    await duel.native("M", 0, rack="r1")
    await duel.native("M", rack="r1", rebalance_timeout_ms=1_000)
    await duel.native("M", rack=None)
    await duel.describe()
    await duel.native("other-client", 2, member_id="M")
    await duel.describe()


@script()
async def another_rack_bumps_the_epoch(duel: Duel) -> None:
    await duel.native("M", 0, rack="r1")
    bumps = Unlike(
        deviation=Deviation.ASSIGNOR_OR_RACK,
        kafka={"member_epoch": 2},
        gateway={"member_epoch": 3},
    )
    await duel.native("M", rack="r2", unlike=bumps)


@script()
async def all_members_leave_and_return(duel: Duel) -> None:
    for _ in range(3):
        await duel.native("M", 0)
        await duel.native("N", 0)
        await duel.native("M", -1)
        await duel.native("M", -1)
        await duel.native("N")
        await duel.native("N", -1)
        await duel.describe()
        await duel.list()
    await duel.delete_group()
    await duel.native("M", 0)
    await duel.describe()


@script()
async def the_answer_carries_the_assignment_when_it_must(duel: Duel) -> None:
    await duel.native("M", 0)
    await duel.native("M")
    await duel.full("M")
    await duel.native("M", owned=TOLD)
    await duel.native("M", owned=TOLD, rebalance_timeout_ms=5_000)
    await duel.native("M", topics=["foo"], owned=TOLD)
    await duel.native("M", topics=["foo"], rebalance_timeout_ms=5_000)
    await duel.native("M", regex="", owned=TOLD, rebalance_timeout_ms=5_000)
    await duel.native("M", 0)


@script()
async def uniform_where_there_is_no_choice(duel: Duel) -> None:
    await duel.native("M", 0, topics=["foo"], assignor="uniform")
    await duel.native("N", 0, topics=["bar"], assignor="uniform")
    await duel.native("M")
    await duel.native("N")
    await duel.describe()
    await duel.native("N", -1)
    await duel.native("M", topics=["foo", "bar"])
    await duel.describe()


@script(TIGHT)
async def targets_are_computed_once_per_interval(duel: Duel) -> None:
    await duel.native("M", 0)
    await duel.native("N", 0)
    await duel.describe()
    await duel.native("M")
    await duel.native("N")
    await duel.sleep(1.8)
    await duel.native("N")
    await duel.native("M")
    await duel.describe()
    await duel.native("N", -1)
    await duel.native("M")
    await duel.describe()


@script(TIGHT)
async def silent_native_members_expire(duel: Duel) -> None:
    await duel.native("M", 0)
    await duel.native("N", 0)
    await duel.sleep(2)
    await duel.native("M")
    await duel.sleep(2)
    await duel.native("N", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await duel.native("M", error=0)
    await duel.describe()


@script(MAIN)
async def a_member_that_does_not_revoke_in_time_is_removed(duel: Duel) -> None:
    await duel.native("M", 0, rebalance_timeout_ms=1_200)
    await duel.native("N", 0)
    await duel.native("M", owned=TOLD)
    await duel.sleep(1.8)
    await duel.native("M", error=ErrorCode.UNKNOWN_MEMBER_ID)
    await duel.native("N")
    await duel.describe()


@script(TIGHT)
async def a_group_that_is_full(duel: Duel) -> None:
    await duel.native("M", 0)
    await duel.native("N", 0, instance="i1")
    await duel.native("O", 0, error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await duel.native("O", 0, instance="i2", error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await duel.join("O", version=3, error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await duel.join("O", error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await duel.join("O", "made-up", error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await duel.native("M", 0)
    await duel.native("N", 0)
    await duel.native("O", 3)
    await duel.native("M", -1)
    await duel.sleep(1.8)  # longer than the assignment interval, so both sides compute a target
    await duel.native("O", 0)
