"""What an inspection decides: how replies are judged, and how a declaration reads. Starts and sends nothing."""
