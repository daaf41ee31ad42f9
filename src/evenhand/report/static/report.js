// Sort and filter tables, name marks under the pointer, open charts for printing. The page is complete without it.
"use strict";
for (const table of document.querySelectorAll("table[data-sortable]")) {
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const key = (row) => {
        const cell = row.cells[column];
        return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
      };
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1; // undefined cells come last
        return (x < y ? -1 : x > y ? 1 : 0) * (ascending ? 1 : -1);
      };
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort(compare));
    });
  });
}
for (const input of document.querySelectorAll("input[data-filter]")) {
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const row of document.querySelectorAll("table[data-sortable] tbody tr")) {
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
    }
  });
}
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true"); // the tables have the same numbers
document.body.append(tip);
for (const picture of document.querySelectorAll(".picture")) {
  picture.addEventListener("pointermove", (event) => {
    const mark = event.target.closest("[aria-label]");
    tip.hidden = !mark || mark === picture;
    if (tip.hidden) return;
    tip.textContent = mark.getAttribute("aria-label");
    tip.style.left = `${Math.max(0, Math.min(event.pageX + 12, document.body.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${event.pageY + 14}px`;
  });
  picture.addEventListener("pointerleave", () => { tip.hidden = true; });
}
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details.chart")) folded.open = true;
});
