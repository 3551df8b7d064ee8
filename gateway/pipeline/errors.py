"""The one error of the pipeline that is told to people as it is."""


class PipelineError(Exception):
    """A run cannot start or go on; the text is one line and says what to do about it."""
