"""Makes shell completion scripts, for commands, options and values, from the commands themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from electra.commands.framework.command import Command, has_dry_run, options_of
from electra.foundation import config
from electra.foundation.errors import ConfigError

SHELLS = ("bash", "zsh", "fish")
ANYWHERE = ["--help", "--debug"]
BASH = """\
_electra() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  local command=${{COMP_WORDS[1]}} words=
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{commands} --help --version --print-completion"
  else
    case "$command $before" in
{values}
    *) case "$word" in -*) case "$command" in
{options}
      esac ;; esac ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _electra electra
"""


def script(shell: str, commands: Mapping[str, type[Command[Any]]]) -> str:
    """Returns the completion script for a shell. Raises ConfigError for an unknown shell."""
    if shell not in SHELLS:
        fix = f"Choose from {', '.join(SHELLS)}"
        raise ConfigError(f"unknown shell {shell!r}", key="print_completion", fix=fix)
    choices_of = {name: _choices(command) for name, command in commands.items()}
    if shell == "fish":
        return _fish(choices_of)
    values = [
        f'    "{command} {option}") words="{" ".join(choices)}" ;;'
        for command, options in choices_of.items()
        for option, choices in options.items()
        if choices
    ]
    flags = [
        f'      {name}) words="{" ".join([*options, *ANYWHERE])}" ;;' for name, options in choices_of.items()
    ]
    text = BASH.format(commands=" ".join(choices_of), values="\n".join(values), options="\n".join(flags))
    load = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"
    return load + text if shell == "zsh" else text


def _choices(command: type[Command[Any]]) -> dict[str, list[str]]:
    """Returns every flag of a command with its choices; an empty list stands for any value."""
    choices: dict[str, list[str]] = {}
    for option in options_of(command):
        if option.name == "recipe":
            choices[option.flag] = config.toml_names(config.RECIPES)
        elif not option.positional:
            choices[option.flag] = list(option.choices)
        if option.is_switch:
            choices[option.negative] = []
    return choices | ({"--dry-run": []} if has_dry_run(command) else {})


def _fish(known: Mapping[str, Mapping[str, list[str]]]) -> str:
    lines = [f"complete -c electra -n __fish_use_subcommand -f -a '{' '.join(known)}'"]
    for name, options in known.items():
        prefix = f"complete -c electra -n '__fish_seen_subcommand_from {name}'"
        for option, choices in options.items():
            values = f" -x -a '{' '.join(choices)}'" if choices else ""
            lines.append(f"{prefix} -l {option.removeprefix('--')}{values}")
    return "\n".join(lines) + "\n"
