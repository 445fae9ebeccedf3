"""Text with something missing, to be learned from: words hidden one by one, or whole spans.

What is drawn follows from the seed, the epoch and the number of the passage alone: a run that was
cut off meets the same gaps again, and dev data have the same at every look.
"""
