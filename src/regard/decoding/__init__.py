"""From a model to text: one protocol for stepping, and each way of choosing words once."""
