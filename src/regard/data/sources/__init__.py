"""Sources of text, one file for each kind, and the readers that they share."""
