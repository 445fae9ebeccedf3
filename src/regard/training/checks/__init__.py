"""Property checks of a recipe, run by `regard check`."""
