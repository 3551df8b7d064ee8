"""Handles each kind of event by the rules of the kind of group that it meets."""
