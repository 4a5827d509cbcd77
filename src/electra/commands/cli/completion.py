"""What makes a shell complete commands, options and values: a script, made from the verbs themselves."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from electra.commands.cli.arguments import choices
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


def script(shell: str, verbs: Mapping[str, str]) -> str:
    """The completion script of `electra` for a shell; `verbs` are the commands and their modules."""
    if shell not in SHELLS:
        fix = f"Choose from {', '.join(SHELLS)}"
        raise ConfigError(f"unknown shell {shell!r}", key="print_completion", fix=fix)
    known = {verb: choices(importlib.import_module(module).Arguments) for verb, module in verbs.items()}
    for options in known.values():
        if "--recipe" in options:
            options["--recipe"] = config.names_in(config.RECIPES)
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


def _fish(known: Mapping[str, Mapping[str, list[str]]]) -> str:
    lines = [f"complete -c electra -n __fish_use_subcommand -f -a '{' '.join(known)}'"]
    for verb, options in known.items():
        here = f"complete -c electra -n '__fish_seen_subcommand_from {verb}'"
        for option, values in options.items():
            given = f" -x -a '{' '.join(values)}'" if values else ""
            lines.append(f"{here} -l {option.removeprefix('--')}{given}")
    return "\n".join(lines) + "\n"
