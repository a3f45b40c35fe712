"""The queue as a transport: workers that run turns of requests that servers and other programs put there."""
