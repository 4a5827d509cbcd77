"""What everything else stands on. No torch, and nothing of the package's other rooms.

errors      what a user sees when something is wrong
config      dataclasses from TOML and from dotted options, and back
seeds       the key of every random draw
durable     the only writer of files that must survive a crash or a power cut
machine     cores, memory, devices, and the libraries that not everybody has
signals     requests to stop
jobs        work in processes of our own
extensions  objectives, tasks and probes by name or path
visible     text of others in a terminal
arrays      numpy arrays by what they hold
progress    what is reported while work goes on
"""
