// One head over the text: a row for each prediction, a column for each token that it could look at.
import { $, capitalised, percent } from "./dom.js";

const CELL = 15; // pixels
const ROWS = 16; // predictions shown, the chosen one among them
const LABEL = 96; // pixels for the words on the axes

// A label that fits into LABEL pixels
function short(word) {
  return word.length > 13 ? `${word.slice(0, 12)}\u2026` : word;
}

export function bindMap(lab) {
  let first = 0; // the position predicted in the first row
  let rows = []; // the weights of each row

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name);
  }

  function prepared(canvas, width, height) {
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext("2d");
    context.font = `12px ${colour("--sans")}`;
    context.textBaseline = "middle";
    context.fillStyle = colour("--ink");
    return context;
  }

  // The predicted words, right-aligned beside their rows; the chosen row is lit.
  function paintRows() {
    const context = prepared($("map-rows"), LABEL, LABEL + CELL * rows.length);
    context.textAlign = "right";
    rows.forEach((_, row) => {
      const position = first + row;
      const isChosen = position === lab.looked;
      const word = position < lab.ids.length ? lab.word(lab.ids[position]) : "(next)";
      const y = LABEL + CELL * row;
      if (isChosen) {
        context.fillStyle = colour("--mark");
        context.fillRect(0, y, LABEL, CELL);
      }
      context.fillStyle = colour("--ink");
      context.fillText(short(word), LABEL - 4, y + CELL / 2);
    });
  }

  function paintCells(start) {
    const columns = Math.max(0, ...rows.map((weights) => weights.length));
    const context = prepared($("map"), CELL * columns + LABEL / 2, LABEL + CELL * rows.length);
    for (let column = 0; column < columns; column++) {
      context.save();
      context.translate(CELL * (column + 0.5), LABEL - 4);
      context.rotate(-Math.PI / 3);
      context.fillText(short(lab.word(lab.ids[start + column])), 0, 0);
      context.restore();
    }
    rows.forEach((weights, row) => {
      const y = LABEL + CELL * row;
      context.globalAlpha = 1;
      if (first + row === lab.looked) {
        context.fillStyle = colour("--mark");
        context.fillRect(0, y, CELL * columns, CELL);
      }
      context.fillStyle = colour("--heat");
      weights.forEach((weight, column) => {
        context.globalAlpha = Math.sqrt(weight); // keeps small weights visible
        context.fillRect(CELL * column + 1, y + 1, CELL - 2, CELL - 2);
      });
    });
  }

  function predictionAt(event) {
    const row = Math.floor((event.offsetY - LABEL) / CELL);
    return rows[row] ? row : null;
  }

  function tell(event) {
    const row = predictionAt(event);
    const column = Math.floor(event.offsetX / CELL);
    const weight = rows[row]?.[column];
    if (weight === undefined) return;
    const position = first + row;
    const predicted = position < lab.ids.length ? lab.quoted(position) : "the next token";
    const seen = lab.quoted(lab.session.start + column);
    $("map-value").textContent = `Predicting ${predicted}: ${percent(weight)} on ${seen}.`;
  }

  for (const canvas of [$("map"), $("map-rows")]) {
    canvas.addEventListener("click", (event) => {
      const row = predictionAt(event);
      if (row !== null) lab.choose(first + row);
    });
  }
  $("map").addEventListener("pointermove", tell);

  // The rows around the prediction that is looked at
  return function show([layer, head], session) {
    const last = session.start + session.seen.length; // the position predicted by the last token
    const end = Math.min(last, lab.looked + 3);
    first = Math.max(session.start + 1, end - ROWS + 1);
    rows = [];
    for (let position = first; position <= end; position++) {
      rows.push(session.at(position - 1).maps[layer][head]);
    }
    paintRows();
    paintCells(session.start);
    const { token } = lab.facts;
    $("map-about").textContent =
      `${capitalised(lab.headName(`${layer}.${head}`))}: each row is the prediction of a ${token}, each column ` +
      `a ${token} that the head looked at for it. The marked row is the prediction chosen above.`;
  };
}
