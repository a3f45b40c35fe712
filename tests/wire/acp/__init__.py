"""What ACP peers say to each other, read and written back."""
