"""What the two APIs of OpenAI share."""
