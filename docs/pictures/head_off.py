"""Draws README's animation: the trained model writes, and one of its heads is switched off.

    python docs/pictures/head_off.py     in a folder with a finished run

Text and probabilities are the model's own. The word and the head are those where switching off a head costs the
likeliest next word most. Without animation, the picture shows the end.
"""

import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

import torch

import tinylm
from tinylm.base.command import run_command
from tinylm.base.files import write_bytes
from tinylm.evaluate.ablation import switched_off
from tinylm.model.transformer import TinyLM

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs/pictures/head-off.svg"
PROMPT = "once upon a time"
SEED = 1
FIRST_WORD, LAST_WORD = 20, 45  # of the story: the picture ends at one of them
SHOWN = 2  # likeliest next words with the head, and as many without it

LOOP_S = 14.0
WORD_S = 0.16
MOVE_S = 0.7  # of a bar
LINE_WORDS = 68  # characters
LETTER = 10.2  # pixels, as wide as in a monospaced font of 17 pixels
BAR = 360.0  # pixels of a probability of 1

STYLE = """
text { font: 17px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #1f2328; }
.frame { fill: #f6f8fa; stroke: #d1d9e0; }
.prompt { fill: #59636e; }
.bar { fill: #1f6feb; }
.off { fill: #bc4c00; font-weight: bold; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .frame { fill: #151b23; stroke: #3d444d; }
  .prompt { fill: #9198a1; }
  .bar { fill: #58a6ff; }
  .off { fill: #f0883e; }
}
"""


@dataclass(frozen=True)
class Scene:
    """What the picture shows. before, after: {next word: its probability}, with and without the head."""

    words: list[str]
    layer: int
    head: int
    before: dict[str, float]
    after: dict[str, float]


def next_probabilities(model: TinyLM, ids: torch.Tensor) -> torch.Tensor:
    """The next token's probabilities at each position.  (1, T) -> (T, V)"""
    with torch.no_grad():
        return model(ids)[0].float().softmax(-1)


def find_scene(lm: tinylm.LanguageModel) -> Scene:
    """The word of a story, and the head, where switching off one head costs the likeliest word most."""
    text = lm.generate(PROMPT, seed=SEED, max_tokens=LAST_WORD + 5)
    words = str(text).split()
    ids = torch.tensor([[lm.tokenizer.sos_id, *lm.tokenizer.encode(str(text))]])
    whole = next_probabilities(lm.model, ids)
    value, likeliest = whole.max(-1)
    best = (0.0, 0, 0, 0)
    for layer in range(lm.model.settings.layers):
        for head in range(lm.model.settings.heads):
            with switched_off(lm.model, layer, head):
                left = next_probabilities(lm.model, ids)
            lost = value - left.gather(-1, likeliest[:, None])[:, 0]
            position = FIRST_WORD + int(lost[FIRST_WORD:LAST_WORD].argmax())
            best = max(best, (lost[position].item(), position, layer, head))
    _, position, layer, head = best
    with switched_off(lm.model, layer, head):
        left = next_probabilities(lm.model, ids)
    shown = torch.cat([whole[position].topk(SHOWN).indices, left[position].topk(SHOWN).indices])
    tokens = list(dict.fromkeys(shown.tolist()))  # each once
    before = {lm.tokenizer.shown(token): whole[position, token].item() for token in tokens}
    after = {lm.tokenizer.shown(token): left[position, token].item() for token in tokens}
    return Scene(words[:position], layer, head, before, after)


def animate(attribute: str, values: list[tuple[float, object]], mode: str = "discrete") -> str:
    """An endless animation of one attribute: [(second, value)]; linear between them or in steps."""
    times = ";".join(f"{second / LOOP_S:.4f}" for second, _ in values)
    listed = ";".join(str(value) for _, value in values)
    return (
        f'<animate attributeName="{attribute}" dur="{LOOP_S:g}s" repeatCount="indefinite" '
        f'calcMode="{mode}" keyTimes="{times}" values="{listed}"/>'
    )


def text_at(x: float, y: float, text: str, kind: str = "", animation: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}{animation}</text>'


def shown_from(second: float, until: float = LOOP_S) -> str:
    """Invisible before this second, and again after the other."""
    return animate("opacity", [(0, 0), (second, 1), *([(until, 0)] if until < LOOP_S else [])])


def draw(scene: Scene) -> str:
    """The picture as SVG."""
    parts = [text_at(24, 40, f'$ tinylm generate "{PROMPT}"', "prompt")]
    column, y = 0, 76
    for number, word in enumerate(scene.words):
        if column + len(word) > LINE_WORDS:
            column, y = 0, y + 26
        second = 0.8 + WORD_S * max(0, number + 1 - len(PROMPT.split()))
        parts.append(text_at(24 + LETTER * column, y, word, "", shown_from(second)))
        column += len(word) + 1
    asked = 0.8 + WORD_S * len(scene.words) + 0.4
    switched = asked + 3.5
    y += 46
    parts.append(text_at(24, y, "next word, all heads on", "prompt", shown_from(asked, switched)))
    off = f"next word, head {scene.head + 1} of layer {scene.layer + 1} switched off"
    parts.append(text_at(24, y, off, "off", shown_from(switched)))
    for word, before in scene.before.items():
        y += 30
        after = scene.after[word]
        parts.append(text_at(24, y, word, "", shown_from(asked)))
        old, new = round(BAR * before, 1), round(BAR * after, 1)
        moves = [(0, 0), (asked, 0), (asked + MOVE_S, old), (switched, old)]
        moves += [(switched + MOVE_S, new), (LOOP_S, new)]
        bar = f'<rect x="190" y="{y - 14}" height="17" width="{new}" rx="2" class="bar">'
        parts.append(bar + animate("width", moves, "linear") + "</rect>")
        x = 200 + BAR
        parts.append(text_at(x, y, f"{100 * before:.0f} %", "", shown_from(asked, switched)))
        parts.append(text_at(x, y, f"{100 * after:.0f} %", "off", shown_from(switched)))
    width, height = 2 * 24 + LETTER * LINE_WORDS, y + 28
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}">'
        f'<style>{STYLE}</style><rect class="frame" x="0.5" y="0.5" width="{width - 1:g}" '
        f'height="{height - 1}" rx="8"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def main() -> None:
    write_bytes(PICTURE, draw(find_scene(tinylm.load(ROOT / "models"))).encode())


if __name__ == "__main__":
    sys.exit(run_command(main))
