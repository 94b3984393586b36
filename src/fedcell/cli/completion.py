"""`fedcell completion`: a script that completes commands, flags, methods, scenarios and settings in a shell.

All words are in the script, so that a press of the tab key starts no Python.
"""

import argparse
from argparse import ArgumentParser, Namespace

SHELLS = {
    "bash": 'eval "$(fedcell completion bash)"  # in ~/.bashrc',
    "zsh": 'eval "$(fedcell completion zsh)"  # in ~/.zshrc, behind compinit',
    "fish": "fedcell completion fish > ~/.config/fish/completions/fedcell.fish",
}
KEYED = ("--set", "--grid")


def flags(sub: ArgumentParser) -> None:
    """The flags of the command."""
    lines = "\n".join(f"  {line}" for line in SHELLS.values())
    sub.epilog = f"to use it:\n{lines}\n\n" + (sub.epilog or "")
    sub.add_argument("shell", metavar="SHELL", choices=[*SHELLS], help=", ".join(SHELLS))
    sub.set_defaults(command=show)


def show(args: Namespace) -> int:
    """Print the script."""
    from . import parser

    print(script(args.shell, parser()))
    return 0


def script(shell: str, top: ArgumentParser) -> str:
    """The script for a shell, from the commands and flags of the parser."""
    from ..study import schema
    from .listing import SECTIONS

    names = {topic: [str(row[0]) for row in SECTIONS[topic]()[1]] for topic in ("methods", "scenarios", "data")}
    keys = [f"{key}=" for key in schema.keys(schema.stored())]
    commands = subcommands(top)
    if shell == "fish":
        return _fish(commands, names, keys)
    text = _bash(commands, names, keys)
    return text if shell == "bash" else f"autoload -U +X bashcompinit && bashcompinit\n{text}"


def subcommands(top: ArgumentParser) -> dict[str, list[str]]:
    """The flags and fixed words of every command, by its name."""
    found = {}
    for name, sub in _below(top).items():
        found[name] = [*_words(sub), *_below(sub)]
        for inner in _below(sub).values():
            found[name] += [word for word in _words(inner) if word not in found[name]]
    return found


def _below(parser: ArgumentParser) -> dict[str, ArgumentParser]:
    parts = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(parts[0].choices) if parts else {}


def _words(parser: ArgumentParser) -> list[str]:
    flags = [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]
    fixed = [str(word) for action in parser._actions if not action.option_strings for word in action.choices or ()]
    return flags + [word for word in fixed if word not in _below(parser)]


def _bash(commands: dict[str, list[str]], names: dict[str, list[str]], keys: list[str]) -> str:
    """The bash function, which completes by the command, the flag before the word, and the word."""
    cases = "\n".join(f'    {name}) words="{" ".join(words)}" ;;' for name, words in commands.items())
    return f'''_fedcell() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words="" i flag=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join([*commands, "--help", "--version"])}" -- "$word"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  for ((i = COMP_CWORD - 1; i > 1; i--)); do
    case "${{COMP_WORDS[i]}}" in --*) flag="${{COMP_WORDS[i]}}"; break ;; esac
  done
  if [ "$flag" = --scenario ] && [[ "$word" != -* ]]; then words="{" ".join(names["scenarios"])}"
  elif [[ " {" ".join(KEYED)} " == *" $before "* ]]; then words="{" ".join(keys)}"; compopt -o nospace 2>/dev/null
  elif [[ "$word" != -* ]]; then
    case "${{COMP_WORDS[1]}}" in
      run|sweep) words="$words {" ".join(names["methods"])}"; COMPREPLY=($(compgen -f -X '!*.@(toml|py)' -- "$word")) ;;
      data) words="$words {" ".join(names["data"])}" ;;
      show|compare|report|dashboard) COMPREPLY=($(compgen -d -- "$word")) ;;
    esac
  fi
  COMPREPLY+=($(compgen -W "$words" -- "$word"))
}}
shopt -s extglob 2>/dev/null
complete -o filenames -F _fedcell fedcell'''


def _fish(commands: dict[str, list[str]], names: dict[str, list[str]], keys: list[str]) -> str:
    lines = [f"complete -c fedcell -n __fish_use_subcommand -f -a '{' '.join(commands)}'"]
    for name, words in commands.items():
        inside = f"complete -c fedcell -n '__fish_seen_subcommand_from {name}'"
        flags = [word.removeprefix("--") for word in words if word.startswith("--")]
        values = {"scenario": names["scenarios"], "set": keys, "grid": keys}
        lines += [
            f"{inside} -l {flag}" + f" -x -a '{' '.join(values.get(flag, ()))}'" * (flag in values) for flag in flags
        ]
        if plain := [word for word in words if not word.startswith("--")]:
            lines.append(f"{inside} -a '{' '.join(plain)}'")
        if name in ("run", "sweep"):
            lines.append(f"{inside} -a '{' '.join(names['methods'])}'")
    return "\n".join(lines)
