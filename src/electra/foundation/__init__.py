"""The base layer: imports neither torch nor any other subpackage."""
