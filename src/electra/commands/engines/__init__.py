"""Engines: who runs the copies of a command that share a folder; one file each, found by being here.

An engine file defines `run`:

    def run(command, copies, *, folder, options, say, stop) -> None

    command   the words of the command, to be run as they are in the present working directory
    copies    how many processes to start
    folder    the command's output folder, where logs may go (hidden folders do not disturb)
    options   the user's words for the engine (--engine-options)
    say       takes a line for the user
    stop      whether the user wants to stop: the copies are ended, and Interrupted is raised

It returns once all copies have ended, however they did: the folder tells what is done. The copies find their
work there by themselves (foundation/leases.py), so an engine distributes nothing. A file of yours or an
installed package works as well (entry point `electra.engines`).
"""
