"""Models behind HTTP, and a page to play with them.

limits      how much a client may ask for
models      a served model: what it can do
operations  what can be asked: each request with its schema and its answer
batching    requests of many clients, computed together
metrics     counts and times, for Prometheus
openapi     the description of it all, for programs and for people
app         the application: routes, errors, headers
server      the application on a socket
web         what any page on a port needs: the socket, headers, a graceful stop
page/       the page's files
"""
