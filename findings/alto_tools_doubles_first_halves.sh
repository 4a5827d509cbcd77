#!/usr/bin/env bash
# alto-tools 0.1.0, `alto-tools -t` (the text of a file): words divided at the end of a line, as ALTO marks them.
#
# Expected: a word with SUBS_TYPE HypPart1 and HypPart2 and the whole in SUBS_CONTENT is given once: whole, or as its
# two halves.
# Seen: the second half is not in the text, and in its place stands the word written before it, once more: "news-" and
# "paper" become "news" and "news", joined to the word that follows. If whole words come between, as where a
# running title stands between the halves, it is that title's last word that is doubled. The same file without the two
# attributes gives both halves. There is no warning; each divided word costs a corpus a word and gives it a false one.
# Exit code 0: still so. 1: it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check alto-tools==0.1.0
cat > try.py <<'EOS'
import re
import subprocess
import sys

NAMESPACE = "http://www.loc.gov/standards/alto/ns-v3#"
BOX = 'HPOS="10" VPOS="10" WIDTH="90" HEIGHT="40"'
DIVIDED = [["The", ("news", 1)], [("paper", 2), "was", "late"]]
TITLED = [["The", ("news", 1)], ["Evening", "Post"], [("paper", 2), "was", "late"]]


def text_of(name, lines):
    """What alto-tools prints for lines of words, the halves of one as (text, part)."""
    words, number = [], 0
    for line in lines:
        words.append(f"<TextLine {BOX}>")
        for word in line:
            number += 1
            text, part = word if isinstance(word, tuple) else (word, 0)
            half = f'SUBS_TYPE="HypPart{part}" SUBS_CONTENT="newspaper"' if part else ""
            words.append(f'<String ID="S{number}" CONTENT="{text}" {BOX} {half}/>')
            words.append('<HYP CONTENT="-"/>' if part == 1 else "")
        words.append("</TextLine>")
    block = f'<PrintSpace {BOX}><TextBlock ID="B1" {BOX}>{"".join(words)}</TextBlock></PrintSpace>'
    page = f'<Page ID="P1" PHYSICAL_IMG_NR="1">{block}</Page>'
    unit = "<Description><MeasurementUnit>pixel</MeasurementUnit></Description>"
    with open(name, "w") as file:
        file.write(f'<alto xmlns="{NAMESPACE}">{unit}<Layout>{page}</Layout></alto>')
    done = subprocess.run(["venv/bin/alto-tools", "-t", name], capture_output=True, text=True, check=True)
    print(f"{name:12s} {done.stdout.split()} {done.stderr.strip()}")
    return re.sub(r"\s+", " ", done.stdout).strip()


plain = text_of("plain.xml", [[word[0] if isinstance(word, tuple) else word for word in line] for line in DIVIDED])
divided, titled = text_of("divided.xml", DIVIDED), text_of("titled.xml", TITLED)
ok = plain == "The news paper was late" and divided == "The news newswas late"
sys.exit(0 if ok and titled == "The news Evening Post Post was late" else 1)
EOS
venv/bin/python try.py
