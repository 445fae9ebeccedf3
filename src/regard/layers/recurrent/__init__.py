"""Recurrent cells, one file a kind, and the stacks built from them."""
