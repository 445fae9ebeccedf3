"""Recognition of a user's files: format, encoding, columns, labels and languages, from samples."""
