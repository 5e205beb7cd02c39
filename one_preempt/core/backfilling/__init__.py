"""Which requests may overtake waiting ones (no durations yet, so none are held back)."""
