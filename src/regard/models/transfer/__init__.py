"""Transfer of weights from one model to another, by parameter name."""
