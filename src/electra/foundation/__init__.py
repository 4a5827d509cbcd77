"""The base layer: imports neither torch nor any other room of the package.

errors      what a user sees when something is wrong
config      dataclasses from TOML and from dotted options, and back
seeds       the key of every random draw
durable     the only writer of files that must survive a crash or a power cut
machine     cores, memory, devices, and optional libraries
signals     requests to stop
jobs        work in child processes
extensions  objectives, tasks and probes by name or path
visible     text for a terminal or a log
arrays      types of numpy arrays
progress    progress reports
"""
