"""The backend that an ACP agent is, against agents that are real programs."""
