"""Learning-rate schedules, one file a kind."""
