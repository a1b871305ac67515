"""README's animation: the trained model writes, and one of its heads is switched off.

Text and probabilities are the model's own. The word and the head are those where switching off a head costs the
likeliest next word most, among words that stand in the story already. Every frame shows all of the text and all bars:
the animation lights up what it is about. It stands still for readers who ask for less motion.
"""

from dataclasses import dataclass
from html import escape
from pathlib import Path

import torch

import tinylm
from tests.pictures.noted import svg_note
from tests.pictures.svg import picture_of, text_at
from tinylm.base import paths
from tinylm.evaluate.ablation import switched_off
from tinylm.model.transformer import TinyLM

PROMPT = "once upon a time"
SEED = 1
FIRST_WORD, LAST_WORD = 20, 45  # of the story: the picture ends at one of them
SHOWN = 2  # likeliest next words with the head, and as many without it
OTHERS = "all other words"

WORD_S = 0.16
ASKED_S, SWITCHED_S, END_S = 0.4, 2.4, 6.4  # after the last word of the text
MOVE_S = 0.7  # of a bar
DIM = 0.55  # opacity
MARGIN = 24
LINE_WORDS = 68  # characters
LETTER = 10.2  # pixels, as wide as in a monospaced font of 17 pixels
BARS, BAR = 190, 340  # pixels: where bars begin, a probability of 1

STYLE = """
text { font: 17px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #1f2328; }
.prompt { fill: #59636e; }
.on { fill: #1f6feb; }
.off { fill: #bc4c00; }
.number { font-weight: bold; }
.bar { transform-box: fill-box; transform-origin: left; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .prompt { fill: #9198a1; }
  .on { fill: #58a6ff; }
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
    """The repeated word of a story, and the head, where switching off one head costs the likeliest word most."""
    text = lm.generate(PROMPT, seed=SEED, max_tokens=LAST_WORD + 5)
    words = str(text).split()
    ids = torch.tensor([[lm.tokenizer.sos_id, *lm.tokenizer.encode(str(text))]])
    whole = next_probabilities(lm.model, ids)
    value, likeliest = whole.max(-1)
    # Position n predicts word n, since <sos> is before the words.
    repeated = [n for n in range(FIRST_WORD, LAST_WORD) if likeliest[n] in ids[0, 1 : n + 1]]
    best = (0.0, 0, 0, 0)
    for layer in range(lm.model.settings.layers):
        for head in range(lm.model.settings.heads):
            with switched_off(lm.model, layer, head):
                left = next_probabilities(lm.model, ids)
            lost = value - left.gather(-1, likeliest[:, None])[:, 0]
            best = max([best, *((lost[n].item(), n, layer, head) for n in repeated)])
    _, position, layer, head = best
    with switched_off(lm.model, layer, head):
        left = next_probabilities(lm.model, ids)
    shown = torch.cat([whole[position].topk(SHOWN).indices, left[position].topk(SHOWN).indices])
    tokens = list(dict.fromkeys(shown.tolist()))  # each once
    before, after = (
        {lm.tokenizer.shown(n): row[n].item() for n in tokens}
        for row in (whole[position], left[position])
    )
    for found in (before, after):
        found[OTHERS] = 1 - sum(found.values())
    return Scene(words[:position], layer, head, before, after)


def title_of(scene: Scene) -> str:
    """What the picture shows, in one sentence; README's alt text."""
    word, before = next(iter(scene.before.items()))
    falls = f'"{word}" falls from {100 * before:.0f} to {100 * scene.after[word]:.0f} percent'
    return f"A story word by word; with head {scene.head + 1} of layer {scene.layer + 1} switched off, {falls}"


class Animations:
    """Animations in CSS, which readers can turn off; all of them last as long, and repeat together."""

    def __init__(self, loop: float) -> None:
        self.loop = loop
        self.rules: list[str] = []

    def add(self, *frames: tuple[float, str]) -> str:
        """The name of a new animation: frames are (second, declarations)."""
        name = f"a{len(self.rules)}"
        steps = " ".join(f"{100 * second / self.loop:.2f}% {{ {what} }}" for second, what in frames)
        self.rules.append(f"@keyframes {name} {{ {steps} }}")
        return name

    def lights_up(self, second: float, *content: str) -> str:
        """A group of elements that is dim before this second."""
        dim, full = f"opacity: {DIM}", "opacity: 1"
        frames = [(0, dim), (second, dim), (second + 0.1, full), (self.loop, full)]
        name = self.add(*frames)
        return f'<g class="moves" style="animation-name: {name}">{"".join(content)}</g>'

    def style(self) -> str:
        moves = f".moves {{ animation: {self.loop:g}s linear infinite; }}"
        return (
            "@media (prefers-reduced-motion: no-preference) {\n"
            + "\n".join([moves, *self.rules])
            + "\n}\n"
        )


def bar(y: float, share: float, kind: str) -> str:
    return f'<rect x="{BARS}" y="{y:g}" width="{BAR * share:.1f}" height="9" class="{kind}"/>'


def falling_bar(
    y: float, shares: tuple[float, float], switched: float, animations: Animations
) -> str:
    """The bar without the head: when the head is switched off, it moves from the share before to its own."""
    old, new = (f"transform: scaleX({share:.4f})" for share in shares)
    frames = [(0, new), (switched, new), (switched + 0.01, old), (switched + MOVE_S, new)]
    name = animations.add(*frames, (animations.loop, new))
    style = f"animation-name: {name}; {new}"
    place = f'x="{BARS}" y="{y:g}" width="{BAR}" height="9"'
    return f'<rect {place} class="moves bar off" style="{style}"/>'


def key(x: float, y: float, text: str, kind: str) -> str:
    """A line of the key: a square and what it stands for."""
    square = f'<rect x="{x:g}" y="{y - 12:g}" width="12" height="12" class="{kind}"/>'
    return square + text_at(x + 20, y, text)


def draw(scene: Scene, run: str) -> bytes:
    """The picture as SVG."""
    begun = 0.8
    written = begun + WORD_S * len(scene.words)
    asked, switched = written + ASKED_S, written + SWITCHED_S
    animations = Animations(written + END_S)
    title = title_of(scene)
    parts = [svg_note(run), f"<title>{escape(title)}</title>"]
    parts.append(text_at(MARGIN, 40, f'$ tinylm generate "{PROMPT}"', "prompt"))
    column, y = 0, 76
    for number, word in enumerate(scene.words):
        if column + len(word) > LINE_WORDS:
            column, y = 0, y + 26
        drawn = text_at(MARGIN + LETTER * column, y, word)
        parts.append(animations.lights_up(begun + WORD_S * number, drawn))
        column += len(word) + 1
    y += 46
    off = f"head {scene.head + 1} of layer {scene.layer + 1} switched off"
    parts.append(text_at(MARGIN, y, "next word:", "prompt"))
    parts.append(animations.lights_up(asked, key(BARS, y, "all heads on", "on")))
    parts.append(animations.lights_up(switched, key(BARS + 180, y, off, "off")))
    numbers = BARS + BAR + 6 * LETTER
    for word, before in scene.before.items():
        y += 32
        after = scene.after[word]
        parts.append(text_at(MARGIN, y, word))
        percents = [f"{100 * share:.0f} %" for share in (before, after)]
        shown = [bar(y - 14, before, "on"), text_at(numbers, y, percents[0], "number on", "end")]
        parts.append(animations.lights_up(asked, *shown))
        shown = [falling_bar(y - 4, (before, after), switched, animations)]
        shown.append(text_at(numbers + 7 * LETTER, y, percents[1], "number off", "end"))
        parts.append(animations.lights_up(switched, *shown))
    width = 2 * MARGIN + LETTER * LINE_WORDS
    return picture_of(parts, width, y + 28, STYLE + animations.style())


def picture(run: str) -> bytes:
    """Of the run in this folder."""
    return draw(find_scene(tinylm.load(Path(paths.MODELS))), run)
