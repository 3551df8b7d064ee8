"""Hosted groups: requests in, engine answers out. No rule of the engine lives here."""
