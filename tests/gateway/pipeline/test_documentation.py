"""The documentation of the tables matches the models."""

from gateway.pipeline.documentation import PAGE, page


def test_the_documentation_matches_the_models() -> None:
    """To regenerate it, run `python -m gateway.pipeline.documentation`."""
    assert PAGE.read_text() == page()
