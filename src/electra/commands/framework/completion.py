"""What makes a shell complete commands, options and values: a script, made from the commands themselves."""

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
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]}} words=
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{verbs} --help --version --print-completion"
  else
    case "$verb $before" in
{values}
    *) case "$word" in -*) case "$verb" in
{options}
      esac ;; esac ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _electra electra
"""


def script(shell: str, commands: Mapping[str, type[Command[Any]]]) -> str:
    """The completion script of `electra` for a shell."""
    if shell not in SHELLS:
        fix = f"Choose from {', '.join(SHELLS)}"
        raise ConfigError(f"unknown shell {shell!r}", key="print_completion", fix=fix)
    known = {name: _choices(command) for name, command in commands.items()}
    if shell == "fish":
        return _fish(known)
    values = [
        f'    "{verb} {option}") words="{" ".join(found)}" ;;'
        for verb, options in known.items()
        for option, found in options.items()
        if found
    ]
    named = [f'      {verb}) words="{" ".join([*names, *ANYWHERE])}" ;;' for verb, names in known.items()]
    text = BASH.format(verbs=" ".join(known), values="\n".join(values), options="\n".join(named))
    load = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"
    return load + text if shell == "zsh" else text


def _choices(command: type[Command[Any]]) -> dict[str, list[str]]:
    """Every option of a command with the values it may take (none: any)."""
    found: dict[str, list[str]] = {}
    for option in options_of(command):
        if option.name == "recipe":
            found[option.flag] = config.toml_names(config.RECIPES)
        elif not option.positional:
            found[option.flag] = list(option.choices)
        if option.is_switch:
            found[option.negative] = []
    return found | ({"--dry-run": []} if has_dry_run(command) else {})


def _fish(known: Mapping[str, Mapping[str, list[str]]]) -> str:
    lines = [f"complete -c electra -n __fish_use_subcommand -f -a '{' '.join(known)}'"]
    for verb, options in known.items():
        here = f"complete -c electra -n '__fish_seen_subcommand_from {verb}'"
        for option, values in options.items():
            given = f" -x -a '{' '.join(values)}'" if values else ""
            lines.append(f"{here} -l {option.removeprefix('--')}{given}")
    return "\n".join(lines) + "\n"
