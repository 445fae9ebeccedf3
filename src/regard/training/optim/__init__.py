"""Optimizers, learning-rate schedules and parameter groups."""
