"""The doors, tested over every transport they have."""
