"""Plays every interleaving of a small world with the engine and the hosting machine that ship."""
