"""The threshold of multi-label classification."""

THRESHOLD = 0.5  # the probability from which a label is predicted
