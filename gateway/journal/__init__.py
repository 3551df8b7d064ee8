"""The journal of a gateway: its events, numbered, in files, in a topic and in the log."""
