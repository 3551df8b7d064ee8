"""The picture of the README is that of the table of rolls."""

import xml.etree.ElementTree as ET

import pytest

from tests.bench.bench_roll import PAGE, PICTURE
from tests.bench.roll_picture import WAYS, costs_in, picture_of


def test_the_picture_is_drawn_from_the_present_table() -> None:
    """`poe bench roll --keep` writes both."""
    assert PICTURE.read_text() == picture_of(costs_in(PAGE.read_text()))


def test_each_way_has_its_bars_and_figures() -> None:
    costs = costs_in(PAGE.read_text())
    root = ET.fromstring(picture_of(costs))
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {name for name, _colour in WAYS.values()} <= set(texts)
    assert {f"{cost.idle_partition_s:g}" for cost in costs} <= set(texts)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) == 2 * len(WAYS)


def test_a_table_without_a_way_is_refused() -> None:
    with pytest.raises(ValueError, match="no row of Kafka"):
        costs_in("| librdkafka eager, gap 1 s | groupferry on 4.3 | 1 | 1 | 0 |")
