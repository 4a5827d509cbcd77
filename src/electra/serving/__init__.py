"""Models behind HTTP, and a page to play with them.

limits      the size limits of requests
models      a served model and its abilities
operations  the requests: schema, validation, computation
answers     the schemas of the responses
batching    dynamic batching of the requests of many clients
metrics     counts and latencies, for Prometheus
openapi     the API's description, for programs and for people
app         the application: routes, errors, headers
server      the application on a socket
web         the HTTP server: socket, security headers, connection limits, graceful stop
page/       the demo page's files
"""
