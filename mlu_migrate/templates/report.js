"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { reasons, items, files, texts } = data;
  const STEP = 100, PRINT_ITEMS = 3000, PRINT_ROWS = 20000;
  const $ = (id) => document.getElementById(id);
  const el = (tag, cls, text) => {
    const node = document.createElement(tag);
    if (cls) node.className = cls;
    if (text !== undefined) node.textContent = text;
    return node;
  };

  // Backticks mark code in messages.
  const prose = (node, text) => {
    const parts = text.split("`");
    if (parts.length % 2 === 0) node.append(text);
    else parts.forEach((part, index) => node.append(index % 2 ? el("code", "", part) : part));
    return node;
  };

  // Ticks are remembered by the browser where it lets a local page do so.
  let done = new Set();
  const KEY = "mlu-migrate-done";
  try { done = new Set(JSON.parse(localStorage.getItem(KEY) || "[]")); } catch (error) { done = new Set(); }
  const remember = () => { try { localStorage.setItem(KEY, JSON.stringify([...done])); } catch (error) { return; } };

  const folderOf = (path) => { const at = path.lastIndexOf("/"); return at < 0 ? "." : path.slice(0, at); };
  const hay = items.map((item) => {
    const [code, message] = reasons[item[0]];
    return [code, message, item[3], item[5]].join("\n").toLowerCase();
  });

  const fill = (select, values) => {
    for (const [value, label] of values) {
      const option = el("option", "", label);
      option.value = value;
      select.append(option);
    }
  };
  const count = (of) => {
    const map = new Map();
    for (const item of items) { const key = of(item); map.set(key, (map.get(key) || 0) + 1); }
    return [...map].sort((a, b) => (a[0] < b[0] ? -1 : 1)).map(([key, n]) => [key, `${key} (${n})`]);
  };
  fill($("f-rule"), count((item) => reasons[item[0]][0]));
  const folders = new Map();
  for (const item of items) {
    const parts = folderOf(item[3]).split("/");
    for (let depth = 1; depth <= Math.min(parts.length, 3); depth++) {
      const key = parts.slice(0, depth).join("/");
      folders.set(key, (folders.get(key) || 0) + 1);
    }
  }
  fill($("f-folder"), [...folders].sort((a, b) => (a[0] < b[0] ? -1 : 1)).map(([key, n]) => [key, `${key} (${n})`]));

  let shown = [], drawn = 0;
  const itemNode = (index) => {
    const [reason, severity, safety, path, where, before, after, mark, flags] = items[index];
    const [rule, message, hint] = reasons[reason];
    const li = el("li", severity);
    const top = el("div", "top");
    top.append(el("span", "tag", texts[`js_${severity}`]), el("span", "where", `${path}:${where}`), el("span", "rule", rule));
    if (safety === "safe" && after) top.append(el("span", "rule", texts.js_safe));
    if (safety === "unsafe" && flags) top.append(el("span", "rule", `${texts.js_unsafe} ${flags}`));
    const label = el("label"), box = el("input");
    box.type = "checkbox";
    box.checked = done.has(mark);
    li.classList.toggle("done", box.checked);
    box.addEventListener("change", () => {
      if (box.checked) done.add(mark); else done.delete(mark);
      li.classList.toggle("done", box.checked);
      remember();
    });
    label.append(box, ` ${texts.js_done}`);
    top.append(label);
    li.append(top, prose(el("p"), message));
    if (before) li.append(el("pre", "", before));
    if (after && after !== before) li.append(el("pre", "new", after));
    if (hint) li.append(prose(el("p", "hint"), hint));
    return li;
  };
  const drawItems = (upTo) => {
    const part = document.createDocumentFragment();
    for (; drawn < Math.min(upTo, shown.length); drawn++) part.append(itemNode(shown[drawn]));
    $("items").append(part);
    $("more").hidden = drawn >= shown.length;
  };
  const filter = () => {
    const words = $("f-text").value.toLowerCase().split(/\s+/).filter(Boolean);
    const rule = $("f-rule").value, severity = $("f-severity").value, folder = $("f-folder").value, open = $("f-open").checked;
    shown = [];
    for (let index = 0; index < items.length; index++) {
      const item = items[index];
      if (severity && item[1] !== severity) continue;
      if (rule && reasons[item[0]][0] !== rule) continue;
      if (folder) { const own = folderOf(item[3]); if (own !== folder && !own.startsWith(`${folder}/`)) continue; }
      if (open && done.has(item[7])) continue;
      if (words.length && !words.every((word) => hay[index].includes(word))) continue;
      shown.push(index);
    }
    drawn = 0;
    $("items").replaceChildren();
    drawItems(STEP);
    $("f-count").textContent = texts.js_count.replace("{shown}", shown.length).replace("{all}", items.length);
  };
  for (const id of ["f-text", "f-rule", "f-severity", "f-folder", "f-open"]) $(id).addEventListener("input", filter);
  $("filters").addEventListener("reset", () => setTimeout(filter));
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("more").addEventListener("click", () => drawItems(drawn + STEP));

  // The part of a line that differs, for the eye.
  const side = (own, other, cls, number) => {
    const td = el("td", cls);
    if (!number) return td;
    let head = 0, tail = 0;
    const most = Math.min(own.length, other.length);
    while (head < most && own[head] === other[head]) head++;
    while (tail < most - head && own[own.length - 1 - tail] === other[other.length - 1 - tail]) tail++;
    if (!other) { td.textContent = own; return td; }
    td.append(own.slice(0, head), el("mark", "", own.slice(head, own.length - tail)), own.slice(own.length - tail));
    return td;
  };
  const diff = (hunks) => {
    const table = el("table", "diff"), group = el("colgroup");
    for (const cls of ["num", "", "num", "", "why"]) group.append(el("col", cls));
    const body = el("tbody");
    hunks.forEach((rows, index) => {
      if (index) { const gap = el("tr", "gap"), td = el("td"); td.colSpan = 5; gap.append(td); body.append(gap); }
      for (const [oldNumber, newNumber, before, after, why] of rows) {
        const changed = !oldNumber || !newNumber || after !== "" || why;
        const tr = el("tr");
        tr.append(el("td", "num", oldNumber || ""));
        if (changed) tr.append(side(before, after, oldNumber ? "old" : "", oldNumber));
        else tr.append(el("td", "", before));
        tr.append(el("td", "num", newNumber || ""));
        if (changed) tr.append(side(after, before, newNumber ? "new" : "", newNumber));
        else tr.append(el("td", "", before));
        const cell = el("td", "why");
        for (const reason of why || []) {
          const [rule, message] = reasons[reason];
          const line = el("div");
          line.append(el("code", "", rule.split(" ")[0]), " ");
          prose(line, message);
          cell.append(line);
        }
        tr.append(cell);
        body.append(tr);
      }
    });
    table.append(group, body);
    return table;
  };
  const fileNode = ([path, hunks, edits]) => {
    const details = el("details"), summary = el("summary");
    summary.append(el("span", "", path), el("span", "n", texts.js_edits.replace("{n}", edits)));
    details.append(summary);
    details.draw = () => { if (details.children.length < 2) details.append(diff(hunks)); };
    details.addEventListener("toggle", () => { if (details.open) details.draw(); });
    return details;
  };
  let shownFiles = [], drawnFiles = 0;
  const drawFiles = (upTo) => {
    const part = document.createDocumentFragment();
    for (; drawnFiles < Math.min(upTo, shownFiles.length); drawnFiles++) part.append(fileNode(shownFiles[drawnFiles]));
    $("files").append(part);
    $("more-files").hidden = drawnFiles >= shownFiles.length;
  };
  const filterFiles = () => {
    const words = $("f-path").value.toLowerCase().split(/\s+/).filter(Boolean);
    shownFiles = files.filter((file) => words.every((word) => file[0].toLowerCase().includes(word)));
    drawnFiles = 0;
    $("files").replaceChildren();
    drawFiles(2 * STEP);
    $("file-count").textContent = texts.js_files.replace("{shown}", shownFiles.length).replace("{all}", files.length);
  };
  $("f-path").addEventListener("input", filterFiles);
  $("file-filters").addEventListener("submit", (event) => event.preventDefault());
  $("more-files").addEventListener("click", () => drawFiles(drawnFiles + 2 * STEP));
  const openAll = () => { for (const node of $("files").children) { node.draw(); node.open = true; } };
  $("open-all").addEventListener("click", openAll);
  $("close-all").addEventListener("click", () => { for (const node of $("files").children) node.open = false; });

  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      event.preventDefault();
      $("f-text").focus();
    }
  });
  addEventListener("beforeprint", () => {
    drawItems(PRINT_ITEMS);
    const rows = files.reduce((sum, file) => sum + file[1].reduce((n, hunk) => n + hunk.length, 0), 0);
    if (rows <= PRINT_ROWS) { drawFiles(shownFiles.length); openAll(); }
  });
  filter();
  filterFiles();
})();
