"""Serves models over HTTP, with a page to try them.

limits      the size limits of requests
models      a served model, and the operations that it supports
operations  the requests: their schemas, validation and computation
answers     the schemas of the responses
batching    dynamic batching of requests from many clients
metrics     counts and latencies, for Prometheus
openapi     the description of the API, as JSON and as HTML
app         the application: routes, errors, headers
server      the application on a socket
web         the HTTP server: socket, security headers, connection limits, graceful stop
page/       the demo page's files
"""
