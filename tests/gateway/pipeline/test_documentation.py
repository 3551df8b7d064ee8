"""What is written of the tables is what they are."""

from gateway.pipeline.documentation import PAGE, page


def test_the_documentation_is_that_of_the_models() -> None:
    """Write it anew with `python -m gateway.pipeline.documentation`."""
    assert PAGE.read_text() == page()
