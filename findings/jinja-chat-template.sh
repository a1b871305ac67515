#!/usr/bin/env bash
# @huggingface/jinja 0.5.11 (npm): the same chat template and messages give a different prompt than in Python.
#
# transformers.js renders chat templates with this package, and transformers with jinja2.
#
# One would expect: true and none may print differently, and a rare filter may be missing, with an error.
# But loops, comparisons and the string methods that templates of reasoning models call agree.
#
# What happens:
# - A variable that is set in the body of a loop keeps its value in the next iteration. If only some messages
#   set it, later ones inherit it: one message's reasoning is repeated in each message after it.
# - strip, lstrip and rstrip accept an argument but ignore it. lstrip('\n') also strips the indent of a
#   code line, and strip('*') strips no star.
# - A list is equal only to itself, so tools == [] is never true. Yet an empty list is equal to false,
#   '' to 0, '1' to 1 and a missing key to none.
# The prompt is plausible text each time, and there is no error or warning.
#
# Seen on 2026-11-29 with jinja2 3.1.6 and @huggingface/jinja 0.5.11:
#   Python, set in a loop: 4 (sum); sure?; yes;
#   npm,    set in a loop: 4 (sum); sure? (sum); yes (sum);
#   Python, lstrip('\n'): "    return x"
#   npm,    lstrip('\n'): "return x"
#   Python, strip('*'): "bold"
#   npm,    strip('*'): "**bold**"
#   Python, tools == []: yes
#   npm,    tools == []: no
#   Python, tools == false: no
#   npm,    tools == false: yes
#   Python, '' == 0: no
#   npm,    '' == 0: yes
#   Python, '1' == 1: no
#   npm,    '1' == 1: yes
#   Python, no such key == none: no
#   npm,    no such key == none: yes
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
python3 -m venv v
v/bin/python -m pip install -q --disable-pip-version-check --no-compile jinja2==3.1.6
npm install --silent --no-audit --no-fund --cache "$T/cache" @huggingface/jinja@0.5.11
cat > templates.json <<'JSON'
{
  "set in a loop": "{% for m in chat %}{% if m.why %}{% set w = m.why %}{% endif %}{{ m.text }}{% if w %} ({{ w }}){% endif %}; {% endfor %}",
  "lstrip('\\n')": "{{ reply.split('</think>')[-1].lstrip('\\n')|tojson }}",
  "strip('*')": "{{ '**bold**'.strip('*')|tojson }}",
  "tools == []": "{{ 'yes' if tools == [] else 'no' }}",
  "tools == false": "{{ 'yes' if tools == false else 'no' }}",
  "'' == 0": "{{ 'yes' if '' == 0 else 'no' }}",
  "'1' == 1": "{{ 'yes' if '1' == 1 else 'no' }}",
  "no such key == none": "{{ 'yes' if chat[0].name == none else 'no' }}"
}
JSON
cat > values.json <<'JSON'
{
  "chat": [
    {"role": "assistant", "text": "4", "why": "sum"},
    {"role": "user", "text": "sure?"},
    {"role": "assistant", "text": "yes"}
  ],
  "reply": "<think>\nadd\n</think>\n\n    return x",
  "tools": []
}
JSON
cat > seen.py <<'PY'
import json
from pathlib import Path
from jinja2.sandbox import ImmutableSandboxedEnvironment

# As in transformers: blocks trimmed, and a tojson that does not escape for HTML.
env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
env.filters["tojson"] = json.dumps
values = json.loads(Path("values.json").read_text())
for name, template in json.loads(Path("templates.json").read_text()).items():
    print(f"Python, {name}: {env.from_string(template).render(values).rstrip()}")
PY
cat > seen.mjs <<'JS'
import { readFileSync } from "node:fs";
import { Template } from "@huggingface/jinja";

const values = JSON.parse(readFileSync("values.json", "utf8"));
for (const [name, template] of Object.entries(JSON.parse(readFileSync("templates.json", "utf8"))))
  console.log(`npm,    ${name}: ${new Template(template).render(values).trimEnd()}`);
JS
v/bin/python -W error seen.py > python 2>&1 || true
node seen.mjs > npm 2>&1 || true
paste -d '\n' python npm | tee seen
diff - seen <<'EXPECTED' || { echo "CHANGED: not what was seen on 2026-11-29" >&2; exit 1; }
Python, set in a loop: 4 (sum); sure?; yes;
npm,    set in a loop: 4 (sum); sure? (sum); yes (sum);
Python, lstrip('\n'): "    return x"
npm,    lstrip('\n'): "return x"
Python, strip('*'): "bold"
npm,    strip('*'): "**bold**"
Python, tools == []: yes
npm,    tools == []: no
Python, tools == false: no
npm,    tools == false: yes
Python, '' == 0: no
npm,    '' == 0: yes
Python, '1' == 1: no
npm,    '1' == 1: yes
Python, no such key == none: no
npm,    no such key == none: yes
EXPECTED
