from driven import toy_store  # noqa: F401
