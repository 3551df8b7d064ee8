"""The demo's error."""


class DemoError(Exception):
    """The run cannot continue, or broke a promise. The message is the reason, in one line."""
