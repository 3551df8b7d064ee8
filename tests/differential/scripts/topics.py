"""Subscribed topics appear, grow and vanish (rule 3.5). Each side notices by itself, the gateway
after some seconds."""

from tests.support.differential.both_sides import TOLD, BothSides
from tests.support.differential.script import script

NOTICED_S = 6.0


@script()
async def a_topic_appears(both: BothSides) -> None:
    name = f"later-{both.run}"
    await both.native("N", 0, topics=[name])
    await both.join("A", "A", topics=[name, "foo"])
    await both.sync("A")
    await both.create_topic(name, 2)
    await both.sleep(NOTICED_S)
    await both.native("N", topics=[name], owned=TOLD)
    await both.beat("A")
    await both.join("A", topics=[name, "foo"], owned={"foo": (0, 1, 2)})
    await both.sync("A")
    await both.native("N")
    await both.describe()


@script()
async def a_topic_grows(both: BothSides) -> None:
    name = f"growing-{both.run}"
    await both.create_topic(name, 1)
    await both.native("N", 0, topics=[name])
    await both.native("M", 0, topics=[name])
    await both.grow_topic(name, 4)
    await both.sleep(NOTICED_S)
    await both.native("M")
    await both.native("N", owned=TOLD)
    await both.native("M", owned=TOLD)
    await both.describe()


@script()
async def a_topic_vanishes(both: BothSides) -> None:
    name = f"vanishing-{both.run}"
    await both.create_topic(name, 2)
    await both.native("N", 0, topics=[name, "foo"])
    await both.join("A", "A", topics=[name])
    await both.sync("A")
    await both.delete_topic(name)
    await both.sleep(NOTICED_S)
    await both.native("N")
    await both.native("N", owned={"foo": (0, 1, 2)})
    await both.beat("A")
    await both.sync("A")
    await both.native("N")


@script()
async def a_classic_group_converts_after_its_topic_vanished(both: BothSides) -> None:
    name = f"vanishing-{both.run}"
    await both.create_topic(name, 2)
    await both.enter({"A": {name: (0, 1), "foo": (0,)}}, topics=[name, "foo"])
    await both.delete_topic(name)
    await both.sleep(NOTICED_S)
    await both.native("N", 0)
    await both.beat("A")
    await both.describe()
