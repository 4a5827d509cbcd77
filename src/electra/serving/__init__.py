"""Serves models over HTTP, with a page to try them."""
