"""Properties that a recipe must have before it is worth training, one file a kind."""
