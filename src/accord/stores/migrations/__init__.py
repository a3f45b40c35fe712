"""How the tables came to be: Alembic's folder. A released revision is never changed; a new one follows it."""
