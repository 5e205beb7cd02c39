"""Programs, answers and clients that may take as long as they like, heard for a bounded time and in bounded number."""
