"""Traces of ACP conversations: written by the proxy, shown in a terminal or as a page."""
