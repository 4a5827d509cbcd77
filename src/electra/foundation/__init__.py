"""The base layer: imports neither torch nor any other subpackage.

errors         the errors that a user can fix
config         dataclasses from TOML and from dotted options, and back
options        types of options that take more forms in Python than on a command line
seeds          the key of every random draw
durable        the only writer of files that must survive a crash or a power cut
machine        cores, memory, devices, and optional libraries
signals        requests to stop
work           pieces of work with a record each, shared with other processes by locks
extensions     objectives, tasks, heads and probes by name or path
terminal_text  text for a terminal or a log
arrays         types of NumPy arrays
progress       progress reports
display        where they are shown: a terminal, a notebook, a function, or nowhere
"""
