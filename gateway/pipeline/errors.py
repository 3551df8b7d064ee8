"""The pipeline's error."""


class PipelineError(Exception):
    """A run cannot start or continue. The message is one line that says what to do."""
