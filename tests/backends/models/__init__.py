"""Model APIs: requests and answers as they go over the wire, and endpoints that misbehave."""
