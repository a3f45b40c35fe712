"""The web page of the service: native ES modules that use the HTTP API, as any other client does."""
