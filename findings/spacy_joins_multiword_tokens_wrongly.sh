#!/usr/bin/env bash
# spaCy 3.8.18: `spacy convert` of CoNLL-U with multiword tokens, such as Spanish "al" (2-3), which is "a" and "el".
#
# Expected: the text of the converted document is that of the file (its comment "# text", or the rows' own forms and
# SpaceAfter), or it has the words with spaces between them.
# Seen: the words of a multiword token are written without a space, and its own form is left out: "al mar" becomes
# "ael mar", German "im Haus" "indem Haus", French "du pain" "dele pain". The text of each such sentence holds a word
# that the language does not have (or, worse, has), and every offset after it is moved. No warning. With
# --merge-subtokens the text is right.
# Exit code 0: still so. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check spacy==3.8.18 numpy==2.4.6
cat > try.py <<'EOS'
import subprocess
import sys

import spacy
from spacy.tokens import DocBin

print("spaCy", spacy.__version__)
SENTENCES = [
    ("Vamos al mar.", ["Vamos", ("al", "a", "el"), "mar", "."]),
    ("Er ist im Haus.", ["Er", "ist", ("im", "in", "dem"), "Haus", "."]),
    ("Il mange du pain.", ["Il", "mange", ("du", "de", "le"), "pain", "."]),
]
WRONG = ["Vamos ael mar.", "Er ist indem Haus.", "Il mange dele pain."]


def rows(sentence):
    """CoNLL-U of words and multiword tokens; the last word but one has no space after it."""
    number, lines = 0, []
    for place, word in enumerate(sentence):
        misc = "SpaceAfter=No" if place == len(sentence) - 2 else "_"
        parts = [word] if isinstance(word, str) else list(word[1:])
        if len(parts) > 1:
            lines.append(f"{number + 1}-{number + len(parts)}\t{word[0]}" + "\t_" * 7 + f"\t{misc}")
            misc = "_"
        for part in parts:
            number += 1
            head, relation = (0, "root") if number == 1 else (1, "dep")
            lines.append(f"{number}\t{part}\t{part}\tX\t_\t_\t{head}\t{relation}\t_\t{misc}")
    return "\n".join(lines)


with open("a.conllu", "w") as file:
    file.writelines(f"# text = {text}\n{rows(sentence)}\n\n" for text, sentence in SENTENCES)
found = []
for options in ([], ["--merge-subtokens"]):
    command = [sys.executable, "-m", "spacy", "convert", "a.conllu", ".", "-c", "conllu", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    docs = DocBin().from_disk("a.spacy").get_docs(spacy.blank("xx").vocab)
    found.append([sentence.text.strip() for doc in docs for sentence in doc.sents])
    print(options, found[-1])
sys.exit(0 if found == [WRONG, [text for text, _ in SENTENCES]] else 1)
EOS
venv/bin/python try.py
