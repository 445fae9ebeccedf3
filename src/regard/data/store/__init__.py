"""The token store: prepare data once, then read it memory-mapped."""
