// Sort tables by a column and filter their rows. The page is complete without this script.
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
