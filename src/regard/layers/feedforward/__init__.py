"""Feed-forward networks, one file a kind."""
