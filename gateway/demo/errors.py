"""The one error of the demo."""


class DemoError(Exception):
    """The run cannot go on or did not hold what it promises; the text is the reason, one line."""
