// Text to ids and back, by the rules of tinylm/vocab: words, byte pairs, longest match.

const BETWEEN_WORDS = new Set("-/\u0f0b\u0f0c\u1361");
const LETTER = /^[\p{L}\p{M}\p{N}]/u;
const ENDS_IN_LETTER = /[\p{L}\p{M}\p{N}]$/u;
const OPENING = new Set("([{$\u00bf\u00a1");
const CLOSING = new Set(".,!?;:)]}%\u2026\u2019\u201d");
const QUOTES = new Map([
  ...['""', "''", "\u2018\u2019", "\u201c\u201d", "\u201e\u201c\u201d", "\u201a\u2018\u2019"],
  ...["\u00ab\u00bb", "\u00bb\u00ab", "\u2039\u203a", "\u203a\u2039"],
].map((marks) => [marks[0], marks.slice(1)])); // a quotation mark, and what closes it
const GPT2_WORD = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;
const IGNORED =
  /[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb]/g;

// The corpus's cleaning, as unify of tinylm/text/cleaning.py
function unify(text) {
  text = text.toWellFormed().replace(IGNORED, "").normalize("NFC");
  text = text.replace(/\r\n|[\v\f\r\x85\u2028\u2029]/g, "\n");
  return text.replace(/(?![\t\n])\p{Cc}/gu, " ");
}

function lower(text) {
  // letter by letter: no final sigma rule
  return Array.from(text, (character) => character.toLowerCase()).join("");
}

// A character for each byte, as in GPT-2
function byteCharacters() {
  const isVisible = (byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let next = 256;
  const codes = Array.from({ length: 256 }, (_, byte) => (isVisible(byte) ? byte : next++));
  return codes.map((code) => String.fromCharCode(code));
}

const CHARACTER_OF = byteCharacters();
const BYTE_OF = new Map(CHARACTER_OF.map((character, byte) => [character, byte]));

function spelled(text) {
  const byteOf = (_, code) => String.fromCharCode(parseInt(code, 16));
  const bytes = encodeURIComponent(text).replace(/%(..)/g, byteOf);
  return Array.from(bytes, (byte) => CHARACTER_OF[byte.charCodeAt(0)]).join("");
}

class Words {
  constructor(rule) {
    this.rule = rule;
    this.ids = new Map(rule.tokens.map((token, id) => [token, id]));
    for (const id of rule.specials) this.ids.delete(rule.tokens[id]); // text cannot spell these
  }

  split(text) {
    text = text.toWellFormed();
    for (const [name, pattern, replacement] of this.rule.steps) {
      if (name === "nfc") text = text.normalize("NFC");
      else if (name === "lower") text = lower(text);
      else text = text.replace(new RegExp(pattern, "gu"), replacement);
    }
    const patterns = this.rule.words.map((pattern) => new RegExp(pattern, "gu"));
    return patterns.reduce((parts, word) => parts.flatMap((part) => part.match(word) ?? []), [text]);
  }

  encode(text) {
    return this.split(text).map((word) => this.ids.get(word) ?? this.rule.unk_id);
  }

  decode(ids) {
    const shown = ids.filter((id) => !this.rule.hidden.includes(id));
    const words = shown.map((id) => this.rule.tokens[id]);
    if (this.rule.punctuation !== "keep") return words.join(" ");
    let text = "";
    let isGlued = true;
    const ends = []; // what closes each open quotation
    words.forEach((word, index) => {
      const joins =
        BETWEEN_WORDS.has(word) && ENDS_IN_LETTER.test(text) && LETTER.test(words[index + 1] ?? "");
      const closesQuote = ends.some((end) => end.includes(word));
      const opensQuote = QUOTES.has(word) && !closesQuote;
      while (closesQuote && !ends.pop().includes(word)); // those inside it were never closed
      if (opensQuote) ends.push(QUOTES.get(word));
      const closes = closesQuote || CLOSING.has(word);
      text += isGlued || closes || joins ? word : " " + word;
      isGlued = joins || opensQuote || OPENING.has(word);
    });
    return text;
  }
}

class Bytes {
  constructor(rule) {
    this.rule = rule;
    this.ids = new Map(rule.tokens.map((token, id) => [token, id]));
    for (const id of rule.specials) this.ids.delete(rule.tokens[id]);
    this.ranks = new Map(rule.merges.map((pair, rank) => [pair, rank]));
    this.longest = Math.max(...rule.tokens.map((token) => token.length));
  }

  encode(text) {
    text = unify(text);
    if (this.rule.kind !== "longest_match") {
      const words = (this.rule.lower_case ? lower(text) : text).match(GPT2_WORD) ?? [];
      return words.flatMap((word) => this.merge(spelled(word)));
    }
    const characters = Array.from(text).filter((one) => one === "\n" || this.spells(one));
    const lines = characters.join("").split("\n");
    const words = lines.flatMap((line) => line.match(GPT2_WORD) ?? []);
    return words.flatMap((word) => this.match(spelled(word)));
  }

  // Join the pair of the lowest rank until no known pair is left.
  merge(word) {
    const parts = [...word];
    for (;;) {
      let best = Infinity;
      let position = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = this.ranks.get(`${parts[i]} ${parts[i + 1]}`) ?? Infinity;
        if (rank >= best) continue;
        best = rank;
        position = i;
      }
      if (position < 0) return parts.map((part) => this.ids.get(part));
      const joined = [parts[position], parts[position + 1]];
      for (let i = position; i + 1 < parts.length; i++) {
        const isPair = parts[i] === joined[0] && parts[i + 1] === joined[1];
        if (isPair) parts.splice(i, 2, joined.join(""));
      }
    }
  }

  spells(character) {
    return [...spelled(character)].every((one) => this.ids.has(one));
  }

  // Always the longest token that the rest starts with.
  match(word) {
    const ids = [];
    for (let at = 0; at < word.length; ) {
      let end = Math.min(word.length, at + this.longest);
      while (!this.ids.has(word.slice(at, end))) end -= 1;
      ids.push(this.ids.get(word.slice(at, end)));
      at = end;
    }
    return ids;
  }

  decode(ids) {
    const shown = ids.filter((id) => !this.rule.specials.includes(id));
    const spelling = shown.map((id) => this.rule.tokens[id]).join("");
    const bytes = Uint8Array.from(spelling, (character) => BYTE_OF.get(character));
    return new TextDecoder().decode(bytes);
  }
}

// rule: kind, tokens by id, specials (ids that are not text), sos_id, eos_id, unk_id, lower_case;
// words: punctuation, hidden (ids left out of texts), steps and words (patterns, as in
// tinylm/vocab/words.py); byte pairs: merges as "left right"
export function openTokenizer(rule) {
  return rule.kind === "words" ? new Words(rule) : new Bytes(rule);
}
