"""The transports, tested over every transport they have."""
