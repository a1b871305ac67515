// What the generator of the stories expects at each position of the texts that the page knows:
// facts.truths has their {ids, next}; next[n] has the probability of each id possible after n ids.

// {id: probability} of the token at a position of the text; null where the page does not know it
export function trueChances(lab, position) {
  const before = lab.ids.slice(1, position); // without <sos>
  for (const { ids, next } of lab.facts.truths) {
    if (before.length < next.length && before.every((id, n) => id === ids[n])) return next[before.length];
  }
  return null;
}

// The position of the first token that the generator could not have written; null without one
export function firstImpossible(lab) {
  for (let position = 1; position < lab.ids.length; position++) {
    const chances = trueChances(lab, position);
    if (!chances) return null;
    if (!(lab.ids[position] in chances)) return position;
  }
  return null;
}

// What to say of the generator at a position; "" if it is known there, or if there is none
export function aboutTruth(lab, position) {
  if (!lab.facts.truths.length) return "";
  const impossible = firstImpossible(lab);
  if (impossible !== null && impossible < position) {
    return `The generator could not have written ${lab.quoted(impossible)} (word ${impossible}), so it expects nothing here.`;
  }
  if (trueChances(lab, position)) return "";
  return "The page knows what the generator expects only in its openings and sample stories.";
}
