"""What one decision leaves for the next. Only speed depends on it: without it the same would be found anew."""
