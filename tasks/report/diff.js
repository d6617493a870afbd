"use strict";
const assay = {};

// Differences of two texts, word by word: the shortest edit script (Myers 1986), bounded, so that no text can hang the page.
(() => {
  const MOST_TOKENS = 12000;
  const MOST_EDITS = 1500;

  const words = (text) => text.match(/\s+|[\p{L}\p{M}\p{N}_]+|[^\s\p{L}\p{M}\p{N}_]/gu) || [];
  const lines = (text) => text.match(/[^\n]*\n|[^\n]+/g) || [];

  // The furthest-reaching ends of every number of edits, or null beyond the bound.
  const trace = (a, b) => {
    const most = Math.min(a.length + b.length, MOST_EDITS);
    const offset = most + 1;
    const ends = new Int32Array(2 * most + 3);
    const steps = [];
    for (let d = 0; d <= most; d += 1) {
      steps.push(ends.slice(offset - d - 1, offset + d + 2));
      for (let k = -d; k <= d; k += 2) {
        const down = k === -d || (k !== d && ends[offset + k - 1] < ends[offset + k + 1]);
        let x = down ? ends[offset + k + 1] : ends[offset + k - 1] + 1;
        while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
        ends[offset + k] = x;
        if (x >= a.length && x - k >= b.length) return steps;
      }
    }
    return null;
  };

  const script = (a, b) => {
    const steps = trace(a, b);
    if (!steps) return [["del", a.join("")], ["ins", b.join("")]];
    const found = [];
    let x = a.length;
    let y = b.length;
    for (let d = steps.length - 1; d >= 0; d -= 1) {
      const at = (k) => steps[d][k + d + 1];
      const k = x - y;
      const down = k === -d || (k !== d && at(k - 1) < at(k + 1));
      const fromX = down ? at(k + 1) : at(k - 1);
      const fromY = fromX - (down ? k + 1 : k - 1);
      while (x > Math.max(0, fromX) && y > Math.max(0, fromY)) {
        x -= 1;
        y -= 1;
        found.push(["same", a[x]]);
      }
      if (d > 0) {
        if (down) found.push(["ins", b[--y]]);
        else found.push(["del", a[--x]]);
      }
    }
    return found.reverse();
  };

  // [kind, text] in order, kind being same, del (only in the first) or ins (only in the second).
  assay.differences = (first, second) => {
    let a = words(first);
    let b = words(second);
    if (a.length + b.length > MOST_TOKENS) [a, b] = [lines(first), lines(second)];
    let head = 0;
    while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
    let tail = 0;
    while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
    const parts = [
      ["same", a.slice(0, head).join("")],
      ...script(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
      ["same", a.slice(a.length - tail).join("")],
    ];
    const joined = [];
    for (const [kind, text] of parts) {
      if (!text) continue;
      const last = joined[joined.length - 1];
      if (last && last[0] === kind) last[1] += text;
      else joined.push([kind, text]);
    }
    return joined;
  };
})();
