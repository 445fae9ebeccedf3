"""Layers around attention: norms, feed-forward networks, residual connections, and blocks."""
