"""Subscribed topics appear, grow and vanish (rule 3.5). Each side notices by itself, the gateway
after some seconds."""

from tests.support.differential.duel import TOLD, Duel
from tests.support.differential.script import script

NOTICED_S = 6.0


@script()
async def a_topic_appears(duel: Duel) -> None:
    name = f"later-{duel.run}"
    await duel.native("N", 0, topics=[name])
    await duel.join("A", "A", topics=[name, "foo"])
    await duel.sync("A")
    await duel.create_topic(name, 2)
    await duel.sleep(NOTICED_S)
    await duel.native("N", topics=[name], owned=TOLD)
    await duel.beat("A")
    await duel.join("A", topics=[name, "foo"], owned={"foo": (0, 1, 2)})
    await duel.sync("A")
    await duel.native("N")
    await duel.describe()


@script()
async def a_topic_grows(duel: Duel) -> None:
    name = f"growing-{duel.run}"
    await duel.create_topic(name, 1)
    await duel.native("N", 0, topics=[name])
    await duel.native("M", 0, topics=[name])
    await duel.grow_topic(name, 4)
    await duel.sleep(NOTICED_S)
    await duel.native("M")
    await duel.native("N", owned=TOLD)
    await duel.native("M", owned=TOLD)
    await duel.describe()


@script()
async def a_topic_vanishes(duel: Duel) -> None:
    name = f"vanishing-{duel.run}"
    await duel.create_topic(name, 2)
    await duel.native("N", 0, topics=[name, "foo"])
    await duel.join("A", "A", topics=[name])
    await duel.sync("A")
    await duel.delete_topic(name)
    await duel.sleep(NOTICED_S)
    await duel.native("N", owned={"foo": (0, 1, 2)})
    await duel.beat("A")
    await duel.sync("A")
    await duel.native("N")


@script()
async def a_classic_group_converts_after_its_topic_vanished(duel: Duel) -> None:
    name = f"vanishing-{duel.run}"
    await duel.create_topic(name, 2)
    await duel.enter({"A": {name: (0, 1), "foo": (0,)}}, topics=[name, "foo"])
    await duel.delete_topic(name)
    await duel.sleep(NOTICED_S)
    await duel.native("N", 0)
    await duel.beat("A")
    await duel.describe()
