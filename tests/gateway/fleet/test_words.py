"""What a parent and its processes say to each other."""

import pytest

from gateway.fleet.member import SHARDS
from gateway.fleet.words import (
    WORD_BYTES_MAX,
    AskDrain,
    AskRestart,
    Beat,
    Drain,
    GaveUp,
    LogClaimed,
    LogLost,
    Opened,
    OwnerTable,
    Reload,
    Serving,
    StopAccepting,
    Take,
    Word,
    decode,
    encode,
    make_link,
)


@pytest.mark.parametrize(
    "word",
    [
        *(Beat(), Serving(), AskDrain(), Drain(), Reload(), StopAccepting()),
        *(
            GaveUp(7),
            Opened(3),
            AskRestart((0, 3)),
            OwnerTable((1, 0, 1)),
            Take((4, 5), run_id=1 << 40),
        ),
        LogClaimed("5" * 32, run_id=1 << 52),
        LogLost("gone: \u00e4"),
    ],
    ids=repr,
)
def test_a_word_arrives_as_it_was_said(word: Word) -> None:
    """Whole, and apart from the next one."""
    parent, process = make_link()
    with parent, process:
        parent.send(encode(word))
        parent.send(encode(Beat()))
        assert decode(process.recv(WORD_BYTES_MAX)) == word
        assert decode(process.recv(WORD_BYTES_MAX)) == Beat()


def test_the_table_of_a_large_state_fits_into_one_packet() -> None:
    """The number of shards is fixed when the state is made, perhaps with another default."""
    assert len(encode(OwnerTable((99,) * SHARDS * 16))) < WORD_BYTES_MAX
