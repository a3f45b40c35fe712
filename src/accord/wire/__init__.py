"""What travels: frozen models, one file a noun. They have a shape and no opinion; `core` decides."""
