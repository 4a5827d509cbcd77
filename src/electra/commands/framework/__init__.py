"""Declares, parses, documents and runs commands."""
