"""Several gateway processes that share one state log: which has which groups, and who runs them."""
