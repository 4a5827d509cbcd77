from electra.testing.driven import toy_store  # noqa: F401
