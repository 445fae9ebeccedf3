"""One file a claim of the lecture."""
