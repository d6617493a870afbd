// One sample with everything that is known of it, in a dialog.
(() => {
  const dialog = document.getElementById("detail");
  if (!dialog) return;
  const { make, shown, count, dash, brief, time, words, kind, name, statusChip, armLabel } = assay;
  let compare = false;
  // The sample asked for last. Its texts come a moment later: by then another may be, or the reader closed the dialog.
  let wanted = null;

  const quoted = (text) => `'${text.replaceAll("'", "''")}'`;
  const sqlOf = (sample) => {
    const [dataset, id] = name(sample);
    const own = `run_id = ${quoted(assay.index.run)} AND dataset = ${quoted(dataset)} AND sample_id = ${quoted(id)}`;
    return `SELECT r.arm, r.repeat, r.output, r.reasoning, s.prompt, s.target\n` +
      `FROM requests AS r JOIN samples AS s USING (run_id, dataset, sample_id)\nWHERE ${own};`;
  };

  const passage = (text, reason) => {
    if (text === null || text === undefined) return make("p", {}, dash(reason));
    if (text === "") return make("p", { className: "quiet" }, "(empty)");
    const pattern = assay.pattern();
    const made = make("pre", { dir: "auto", tabIndex: 0 });
    if (typeof text === "string") made.append(shown(text, pattern));
    else {
      made.append(shown(text[0], pattern),
        make("b", { className: "cut" }, `… ${count(text[1])} characters left out; the SQL below gives the whole text …`), shown(text[2], pattern));
    }
    return made;
  };
  const heading = (text, ...more) => make("h4", {}, text, ...more);
  const fact = (label, value, reason) => make("div", {}, make("dt", {}, label), make("dd", {}, value ?? dash(reason)));

  const article = (answer, content) => {
    const [output, reasoning, why, violations, many] = content;
    const arm = assay.index.arms[answer.arm];
    const ended = assay.index.ends[answer.end];
    const made = make("article", { className: `answer arm-${kind(arm)}`, "aria-label": `Answer of the arm ${assay.plain(arm)}` },
      heading("", armLabel(arm), " ", statusChip(assay.index.states[answer.state]),
        answer.repeat ? make("span", { className: "quiet" }, ` repeat ${answer.repeat}`) : null,
        answer.valid === null ? null : make("span", { className: "quiet" }, answer.valid ? " of its form" : " not of its form"),
        answer.reused ? make("span", { className: "quiet" }, " taken over from an earlier run") : null));
    if (reasoning) {
      made.append(make("details", { className: "reasoning", open: output === null }, make("summary", {}, "Reasoning"), passage(reasoning)),
        make("h5", {}, "Answer"));
    }
    made.append(passage(output, reasoning && output === null ? "cut before the reasoning ended" : "no answer came"));
    if (why) made.append(make("p", { className: "why-not" }, make("bdi", {}, shown(why))));
    if (many > 1) {
      made.append(make("ul", { className: "violations" },
        ...violations.map(([path, message]) => make("li", {}, make("code", {}, shown(path || "the whole answer")), " ", make("bdi", {}, shown(message)))),
        many > violations.length ? make("li", {}, `${count(many - violations.length)} more`) : null));
    }
    made.append(make("dl", { className: "facts tiny" },
      fact("Tokens", brief(answer.tokens), "no token came"), fact("Cached prompt", brief(answer.cached), "the engine does not report it"),
      fact("ttft", time(answer.ttft), "not timed"), fact("tpot", time(answer.tpot), "fewer than two tokens came"),
      fact("e2e", time(answer.e2e), "not timed"), fact("Queued", time(answer.queued), "not timed"),
      fact("Ended by", ended ? shown(ended) : null, "not recorded")));
    return made;
  };

  const difference = (free, guided) => {
    const made = make("pre", { className: "diff", dir: "auto", tabIndex: 0 });
    for (const [what, text] of assay.differences(assay.whole(free), assay.whole(guided))) {
      if (what === "same") made.append(shown(text));
      else made.append(make(what, {}, shown(text)));
    }
    return make("div", {}, make("p", { className: "quiet" }, make("del", {}, `only ${assay.index.pair[0]}`), "  ", make("ins", {}, `only ${assay.index.pair[1]}`), "  the rest is in both"), made);
  };

  const table = (heads, rows) => make("div", { className: "scroll" }, make("table", { className: "narrow" },
    make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell)))))));

  const scores = (sample, content) => table(["Metric", "Arm", "Value", "Taken from the answer", "Why"], assay.valuesOf(sample).map((row) => {
    const [extracted, reason] = content[4][row.place];
    return [words(assay.index.metrics[row.metric]), armLabel(assay.index.arms[row.arm]),
      row.value === null ? dash(assay.plain(assay.whole(reason) || "not scored")) : make("b", {}, brief(row.value)),
      extracted === null ? dash("nothing was extracted") : make("bdi", {}, shown(assay.whole(extracted))),
      reason === null ? "" : make("bdi", { className: "quiet" }, shown(assay.whole(reason)))];
  }));
  const choices = (content) => table(["#", "Option or window", "Arm", "Log-likelihood, nat"], content[3].map(([at, option, arm, sum, error]) => [
    at === null ? dash("not recorded") : String(at), option === null ? dash("not recorded") : make("bdi", {}, shown(assay.whole(option))),
    armLabel(assay.index.arms[arm]), sum === null ? dash(assay.plain(error || "no log-likelihood came")) : brief(sum)]));

  const promptOf = (sample, text) => {
    const start = assay.index.prefixes[assay.index.samples[0][sample]];
    if (text === null || !start) return text;
    return typeof text === "string" ? start + text : [start + text[0], text[1], text[2]];
  };

  const button = (label, text, act, more = {}) => {
    const made = make("button", { type: "button", "aria-label": label, ...more }, text);
    made.addEventListener("click", act);
    return made;
  };
  const step = (by) => {
    const at = assay.matching.indexOf(wanted);
    const next = at < 0 ? assay.matching[0] : assay.matching[at + by];
    if (next !== undefined) assay.open(next);
  };
  const toggle = () => {
    if (!dialog.open || wanted === null) return;
    compare = !compare;
    assay.open(wanted);
  };

  const fill = (sample, content) => {
    const [dataset] = name(sample);
    const place = assay.matching.indexOf(sample);
    const answers = assay.answersOf(sample).filter((answer) => !answer.choices);
    const of = (arm) => answers.findIndex((answer) => assay.index.arms[answer.arm] === arm);
    const [free, guided] = (assay.index.pair || [null, null]).map(of);
    const both = free >= 0 && guided >= 0 && content[2][free][0] !== null && content[2][guided][0] !== null;
    const [cut, dropped, replaced] = [3, 4, 5].map((column) => assay.index.samples[column][sample]);
    const marks = [`${brief(assay.index.samples[2][sample]) ?? "–"} tokens`, cut ? `${count(cut)} cut` : "",
      dropped ? `${count(dropped)} examples dropped` : "", replaced ? `${count(replaced)} characters replaced` : ""].filter(Boolean).join(", ");
    const sql = make("pre", { id: "detail-sql", tabIndex: 0 }, shown(sqlOf(sample)));
    const isCut = [content[0], content[1], ...content[2].flatMap((each) => [each[0], each[1]])].some(Array.isArray);
    dialog.replaceChildren(
      make("header", {},
        make("h3", { id: "detail-name", tabIndex: -1 }, make("span", { className: "quiet" }, shown(`${dataset} `)), make("bdi", {}, shown(assay.short(sample)))),
        make("span", { className: "quiet" }, place < 0 ? "not in the list" : `${count(place + 1)} of ${count(assay.matching.length)}`),
        button("Previous sample", "‹", () => step(-1), { disabled: place <= 0 }),
        button("Next sample", "›", () => step(1), { disabled: place < 0 || place + 1 >= assay.matching.length }),
        both ? button("Show the differences between the arms", "Differences", toggle, { "aria-pressed": String(compare) }) : null,
        button("Close", "✕", () => dialog.close())),
      make("div", { className: "inside" },
        compare && both ? difference(content[2][free][0], content[2][guided][0]) : null,
        make("div", { className: "answers", hidden: compare && both }, ...answers.map((answer, at) => article(answer, content[2][at]))),
        ...(content[3].length ? [heading("Log-likelihoods"), choices(content)] : []),
        ...(content[4].length ? [heading("Scores"), scores(sample, content)] : []),
        heading("Target"), passage(content[1], "the dataset has no target"),
        heading("Prompt ", make("span", { className: "quiet" }, marks)), passage(promptOf(sample, content[0]), "nothing was recorded"),
        make("details", { open: isCut }, make("summary", {}, "The whole texts in SQL"),
          make("p", { className: "quiet" }, "Pass it to ", make("code", {}, "assay sql \"…\" --format json"), " ",
            button("Copy the SQL", "Copy", (event) => assay.copy(event.target, sql), { className: "copy" })), sql)));
  };

  assay.open = async (sample) => {
    const inside = dialog.open;
    wanted = sample;
    const content = await assay.texts(sample);
    if (wanted !== sample || (inside && !dialog.open)) return;
    assay.state.open = sample;
    fill(sample, content);
    if (!dialog.open) dialog.showModal();
    document.getElementById("detail-name").focus();
    dialog.scrollTop = 0;
    assay.remember();
  };
  dialog.addEventListener("close", () => {
    if (dialog.open) return;
    const left = assay.state.open;
    assay.state.open = wanted = null;
    assay.remember();
    const row = document.querySelector(`button[data-open="${left}"]`);
    if (row) row.focus();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = { j: () => step(1), k: () => step(-1), d: toggle, ArrowRight: () => step(1), ArrowLeft: () => step(-1) }[event.key];
    if (!act || event.target.closest("input, select, pre") && event.key.startsWith("Arrow")) return;
    event.preventDefault();
    act();
  });
})();
