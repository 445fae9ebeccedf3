"""Checks of a recipe before training: properties that its model and data must have."""
