"""Serves models over HTTP, with a page to try them.

limits      the size limits of requests
models      a served model, and the operations that it supports
operations  the requests and responses: their schemas, validation and computation
worker      the thread that computes requests, in turns
app         the application: routes, errors, headers
server      the application on a socket
page/       the demo page's files
"""
