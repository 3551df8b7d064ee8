"""Transcripts of what gateways wrote, with the verdict on it: `stories/*.txt`.

    pytest tests/gateway/pipeline/fold/test_stories.py --rewrite-stories

writes what the pipeline says now into the files. Read the difference: each verdict was worked out
by hand.
"""

from pathlib import Path

import pytest

from tests.gateway.pipeline.stories import SEPARATOR, outcome, sections, stories

FOLDER = Path(__file__).parent / "stories"


@pytest.mark.parametrize("path", list(stories(FOLDER)), ids=lambda path: path.stem)
def test_the_verdict_is_the_expected_one(path: Path, request: pytest.FixtureRequest) -> None:
    sentences, expected = sections(path)
    text = outcome(sentences)
    if request.config.getoption("--rewrite-stories"):
        path.write_text(sentences + SEPARATOR + text)
        return
    assert text == expected
