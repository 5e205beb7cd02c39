"""A cloud in a file: written from a live one without its secrets, read back as if it were live."""
