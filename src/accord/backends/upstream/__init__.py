"""The way to a model's endpoint, behind one small port; what is spoken there is the business of `models`."""

from accord.backends.upstream.port import Reply, Upstream, UpstreamError, UpstreamRequest, UpstreamTimes

__all__ = ["Reply", "Upstream", "UpstreamError", "UpstreamRequest", "UpstreamTimes"]
