"""Reports of training: metrics, progress, model card, curves."""
