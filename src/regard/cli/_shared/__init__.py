"""Options, line reading and console helpers that several commands share."""
