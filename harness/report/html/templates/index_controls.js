(() => {
  "use strict";
  const table = document.querySelector("table.index"), body = table.tBodies[0];
  const form = document.querySelector("form.filter");
  const words = form.querySelector("input"), picks = Array.from(form.querySelectorAll("select[name]"));
  const order = form.querySelector("select.sorting"), shown = form.querySelector("output");
  const heads = Array.from(table.tHead.rows[0].cells);
  const rows = Array.from(body.rows, (row, at) => ({ row, at, text: null }));
  const textOf = (r) => (r.text ??= r.row.textContent.toLowerCase());

  const filter = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const picked = picks.filter((pick) => pick.value).map((pick) => ["data-" + pick.name, pick.value]);
    let count = 0;
    for (const r of rows) {
      const fits = picked.every(([name, value]) => r.row.getAttribute(name) === value.slice(1)) &&
        wanted.every((word) => textOf(r).includes(word));
      r.row.hidden = !fits;
      count += fits;
    }
    shown.value = count + " of " + rows.length + " queries";
  };

  const keyOf = (r, column, numeric) => {
    const cell = r.row.cells[column], value = cell.getAttribute("data-v") ?? cell.textContent.trim();
    return value === "" ? null : numeric ? Number(value) : value.toLowerCase();
  };
  const sort = (column, down) => {
    const numeric = heads[column].classList.contains("num");
    const keys = new Map(rows.map((r) => [r, keyOf(r, column, numeric)]));
    const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
    const sorted = rows.slice().sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      return x === null || y === null ? (x === null) - (y === null) || a.at - b.at : compare(x, y) || a.at - b.at;
    });
    body.append(...sorted.map((r) => r.row));
    heads.forEach((head, at) => {
      if (at === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    order.value = column + (down ? "-" : "+");
  };

  heads.forEach((head, column) => {
    const button = document.createElement("button"), name = head.textContent;
    button.type = "button";
    button.textContent = name;
    const firstDown = head.classList.contains("num") && column > 0;
    button.addEventListener("click", () => {
      const sorted = head.getAttribute("aria-sort");
      sort(column, sorted ? sorted === "ascending" : firstDown);
    });
    head.replaceChildren(button);
    for (const down of firstDown ? [true, false] : [false, true]) {
      const option = document.createElement("option");
      option.value = column + (down ? "-" : "+");
      option.textContent = name + (down ? " \u2193" : " \u2191");
      order.append(option);
    }
  });
  order.addEventListener("change", () => sort(parseInt(order.value, 10), order.value.endsWith("-")));
  words.addEventListener("input", filter);
  picks.forEach((pick) => pick.addEventListener("change", filter));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { filter(); sort(0, false); }));
  form.hidden = false;
  filter();
})();
