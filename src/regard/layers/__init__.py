"""What stands around attention: norms, feed-forward, residual wiring, and the two blocks."""
