"""From text to batches: sources of pairs, the tokeniser, batching, pretrained vectors."""
