"""Engines, which run the copies of a command that share a folder. Each file in this package is one.

An engine file defines `run`:

    def run(command, copies, *, folder, options, say, stop) -> None

    command   the words of the command line, to run unchanged in the current working directory
    copies    how many processes to start
    folder    the command's output folder; logs may be written to a hidden subfolder
    options   the words of --engine-options
    say       prints a line for the user
    stop      returns whether the user wants to stop; `run` then ends the copies and raises Interrupted

It returns when all copies have ended, whether or not they succeeded: the folder shows what is done. The
copies find their work there by themselves (foundation/leases.py), so an engine does not distribute it. Your
own file works as well, and so does an installed package with the entry point `electra.engines`.
"""
