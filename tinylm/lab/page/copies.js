// Words that a head supplied: it looked at an earlier copy of the word that came next.

const LEAST_WEIGHT = 0.3; // on earlier copies, for a head to be tried
const TRIED = 8; // heads and words whose effect is computed, each by reading the text again

// Every head's weight on earlier copies of the token that it helped to predict:
// {position, layer, head, weight}, for each head and token only the largest
function lookedBack(lab) {
  const session = lab.read();
  const { specials } = lab.tokenizer.rule;
  const largestOf = new Map();
  for (let position = session.start + 1; position < lab.ids.length; position++) {
    const id = lab.ids[position];
    if (specials.includes(id)) continue;
    session.at(position - 1).maps.forEach((heads, layer) => {
      heads.forEach((weights, head) => {
        let weight = 0;
        for (let i = 0; i < weights.length; i++) {
          if (lab.ids[session.start + i] === id) weight += weights[i];
        }
        const key = `${layer}.${head} ${id}`;
        if (weight > (largestOf.get(key)?.weight ?? 0)) {
          largestOf.set(key, { position, layer, head, weight });
        }
      });
    });
  }
  return [...largestOf.values()];
}

// The word that lost most without a head that had looked at an earlier copy of it:
// {position, layer, head, weight, before, without}; null if no head did so
export function copiedWord(lab) {
  if (!lab.ids.length) return null;
  const strong = lookedBack(lab).filter(({ weight }) => weight >= LEAST_WEIGHT);
  strong.sort((one, other) => other.weight - one.weight);
  let found = null;
  for (const one of strong.slice(0, TRIED)) {
    const id = lab.ids[one.position];
    const before = lab.chanceOf(one.position);
    const off = new Set([...lab.off, `${one.layer}.${one.head}`]);
    const without = lab.chancesWithout(off, one.position)[id];
    const loss = before - without;
    if (loss > 0 && loss > (found?.loss ?? 0)) found = { ...one, before, without, loss };
  }
  return found;
}
