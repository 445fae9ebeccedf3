"""Training tasks, one file a kind."""
