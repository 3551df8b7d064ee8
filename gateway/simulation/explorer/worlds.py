"""The named worlds, smallest first. `gateway/docs/small-worlds.md` has what came of them."""

from gateway.simulation.explorer.shape import Shape
from gateway.simulation.explorer.small_consumers import Kind

_CLASSIC_AND_NATIVE = (("a", Kind.COOPERATIVE), ("b", Kind.NATIVE))
_CLASSIC = (("a", Kind.COOPERATIVE), ("b", Kind.COOPERATIVE))
_EAGER = (("a", Kind.EAGER), ("b", Kind.EAGER))
_THREE = (("a", Kind.EAGER), ("b", Kind.EAGER), ("c", Kind.NATIVE))

WORLDS = {
    shape.name: shape
    for shape in (
        Shape(
            name="switch",
            what="one of a classic and a native consumer switches its protocol",
            consumers=_CLASSIC_AND_NATIVE,
            budgets={"switch": 1},
            begins_at_rest=True,
        ),
        Shape(
            name="anchor",
            what="consumers commit while the anchor is removed, and an answer is late",
            consumers=_CLASSIC_AND_NATIVE,
            budgets={"remove": 1, "commit": 1, "late": 1},
            begins_at_rest=True,
        ),
        Shape(
            name="stray",
            what="the answer to a commit is lost",
            consumers=_CLASSIC_AND_NATIVE,
            budgets={"commit": 1, "lose": 2},
            begins_at_rest=True,
        ),
        Shape(
            name="upgrade",
            what="one of two classic consumers switches, and answers are lost",
            consumers=_CLASSIC,
            budgets={"switch": 1, "lose": 1},
            begins_at_rest=True,
        ),
        Shape(
            name="commit",
            what="a consumer switches while the other commits, and answers are lost",
            consumers=_CLASSIC_AND_NATIVE,
            budgets={"switch": 1, "commit": 1, "lose": 1},
            begins_at_rest=True,
        ),
        Shape(
            name="restart",
            what="the gateway is killed while a consumer switches",
            consumers=_CLASSIC_AND_NATIVE,
            budgets={"switch": 1, "restart": 1},
            begins_at_rest=True,
        ),
        Shape(
            name="log",
            what="the log and the coordinator fail while a consumer switches",
            consumers=_CLASSIC_AND_NATIVE,
            budgets={"switch": 1, "fail": 2},
            begins_at_rest=True,
        ),
        Shape(
            name="intruder",
            what="the anchor is removed, and a consumer joins in the cluster itself",
            consumers=_CLASSIC_AND_NATIVE,
            budgets={"remove": 1, "intrude": 2, "commit": 1},
            begins_at_rest=True,
        ),
        Shape(
            name="eager",
            what="two eager consumers start, and one of them switches",
            consumers=_EAGER,
            budgets={"start": 2, "switch": 1},
            classic=Kind.EAGER,
        ),
        Shape(
            name="adopt",
            what="a group is adopted while its consumers commit",
            consumers=_CLASSIC,
            budgets={"adopt": 1, "commit": 1, "lose": 2},
            begins_at_rest=True,
            is_adoption=True,
        ),
        Shape(
            name="adopt-fail",
            what="the coordinator or the log fails during an adoption",
            consumers=_CLASSIC,
            budgets={"adopt": 1, "fail": 1},
            begins_at_rest=True,
            is_adoption=True,
        ),
        Shape(
            name="adopt-late",
            what="a request of an adoption is lost, and arrives later",
            consumers=_CLASSIC,
            budgets={"adopt": 1, "late": 1},
            begins_at_rest=True,
            is_adoption=True,
        ),
        Shape(
            name="adopt-outsider",
            what="a consumer joins in the cluster itself during an adoption",
            consumers=_EAGER,
            classic=Kind.EAGER,
            beside=(("o", Kind.EAGER),),
            budgets={"adopt": 1, "start": 1},
            begins_at_rest=True,
            is_adoption=True,
            elects_newest=True,
        ),
        Shape(
            name="adopt-native",
            what="a native consumer joins in the cluster itself during an adoption",
            consumers=_CLASSIC,
            beside=(("n", Kind.NATIVE),),
            budgets={"adopt": 1, "start": 1},
            begins_at_rest=True,
            is_adoption=True,
            natives_disturb=True,
        ),
        Shape(
            name="adopt-restart",
            what="the gateway is killed during an adoption",
            consumers=_CLASSIC,
            budgets={"adopt": 1, "restart": 1},
            begins_at_rest=True,
            is_adoption=True,
        ),
        Shape(
            name="adopt-whole",
            what="a group is adopted, with the whole hosting machine around it",
            consumers=_CLASSIC,
            budgets={"adopt": 1},
            begins_at_rest=True,
            is_adoption=True,
            is_whole=True,
        ),
        Shape(
            name="release",
            what="a group is released while its consumers commit",
            consumers=_CLASSIC,
            budgets={"release": 1, "commit": 1, "lose": 1},
            begins_at_rest=True,
            is_release=True,
        ),
        Shape(
            name="release-fail",
            what="the coordinator or the log fails during a release",
            consumers=_EAGER,
            classic=Kind.EAGER,
            budgets={"release": 1, "fail": 1},
            begins_at_rest=True,
            is_release=True,
        ),
        Shape(
            name="release-restart",
            what="the gateway is killed during a release",
            consumers=_CLASSIC,
            budgets={"release": 1, "restart": 1},
            begins_at_rest=True,
            is_release=True,
        ),
        Shape(
            name="release-crash",
            what="a consumer crashes during a release",
            consumers=_CLASSIC,
            budgets={"release": 1, "crash": 1},
            begins_at_rest=True,
            is_release=True,
        ),
        Shape(
            name="three",
            what="two eager consumers and a native one start, and one of them crashes",
            consumers=_THREE,
            budgets={"start": 3, "crash": 1},
            classic=Kind.EAGER,
        ),
    )
}
