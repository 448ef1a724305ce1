(() => {
  "use strict";
  const forms = Array.from(document.querySelectorAll("form.filter"), (form) => {
    const table = form.parentElement.querySelectorAll("table.index")[
      Array.from(form.parentElement.querySelectorAll("form.filter")).indexOf(form)];
    const body = table.tBodies[0], prefix = form.dataset.name ? form.dataset.name + "." : "";
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
        write();
      });
      head.replaceChildren(button);
      for (const down of firstDown ? [true, false] : [false, true]) {
        const option = document.createElement("option");
        option.value = column + (down ? "-" : "+");
        option.textContent = name + (down ? " \u2193" : " \u2191");
        order.append(option);
      }
    });
    order.addEventListener("change", () => { sort(parseInt(order.value, 10), order.value.endsWith("-")); write(); });
    for (const field of [words, ...picks]) field.addEventListener("input", () => { filter(); write(); });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(() => { filter(); sort(0, false); write(); }));
    form.hidden = false;

    return {
      state: () => [[prefix + "find", words.value], ...picks.map((pick) => [prefix + pick.name, pick.value.slice(1)]),
        [prefix + "sort", order.value === "0+" ? "" : order.value]].filter(([, value]) => value),
      restore: (from) => {
        words.value = from.get(prefix + "find") ?? "";
        for (const pick of picks) {
          const value = from.has(prefix + pick.name) ? ":" + from.get(prefix + pick.name) : "";
          pick.value = Array.from(pick.options).some((option) => option.value === value) ? value : "";
        }
        const wanted = from.get(prefix + "sort") ?? "0+";
        const known = Array.from(order.options).some((option) => option.value === wanted) ? wanted : "0+";
        filter();
        if (known !== order.value) sort(parseInt(known, 10), known.endsWith("-"));
      },
      words,
      links: () => Array.from(body.rows).filter((row) => !row.hidden).map((row) => row.querySelector("a[href]")),
    };
  });

  // Filters stand in the address after #: a query there would make another file of it.
  const write = () => {
    const state = new URLSearchParams(forms.flatMap((form) => form.state())).toString();
    if (state || location.hash.includes("=")) history.replaceState(null, "", "#" + state);
  };
  const restore = (state) => forms.forEach((form) => form.restore(new URLSearchParams(state)));
  restore(location.hash.includes("=") ? location.hash.slice(1) : "");
  addEventListener("hashchange", () => {
    if (!location.hash || location.hash.includes("=")) restore(location.hash.slice(1));
  });

  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "Escape" && typing) event.target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !forms.length) return;
    if (event.key === "/") {
      event.preventDefault();
      forms[0].words.focus();
    } else if (event.key === "j" || event.key === "k") {
      const links = forms.flatMap((form) => form.links()), at = links.indexOf(document.activeElement);
      const next = event.key === "j" ? at + 1 : at < 0 ? links.length - 1 : at - 1;
      if (links[next]) links[next].focus();
    }
  });
})();
