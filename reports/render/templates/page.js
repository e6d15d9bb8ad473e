"use strict";
(() => {
  const payload = JSON.parse(document.getElementById("payload").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const views = new Map();

  const rows = columns => {
    const names = Object.keys(columns);
    const length = names.length ? columns[names[0]].length : 0;
    return Array.from({length}, (_, i) => Object.fromEntries(names.map(name => [name, columns[name][i]])));
  };

  const theme = () => {
    const style = getComputedStyle(document.documentElement);
    const color = name => style.getPropertyValue(name).trim();
    const ink = color("--ink"), soft = color("--soft"), line = color("--line"), font = "system-ui, sans-serif";
    const category = dark.matches
      ? ["#56B4E9", "#E69F00", "#2DB88F", "#E39AC4", "#F0E442", "#FF8B4D", "#B8C0CA"]
      : ["#0072B2", "#B87400", "#008A66", "#B0578F", "#8F8500", "#C24E00", "#4D5661"];
    return {
      background: "transparent", font,
      view: {stroke: line}, style: {
        fault: {color: color("--bad"), opacity: 0.18},
        "fault-label": {color: color("--bad"), fontWeight: 700, fontSize: 12, font},
        "lane-label": {color: "#10141a", fontSize: 11, font, clip: true},
        spread: {color: category[0], opacity: 0.2},
        clock: {color: soft, opacity: 0.35},
        front: {color: soft, strokeDash: [4, 3], strokeWidth: 1.5},
        interval: {color: soft, strokeWidth: 1.5},
        whole: {color: ink},
        effect: {color: line, strokeWidth: 1.5},
        "point-name": {color: ink, fontSize: 10.5, font},
        "name-line": {color: soft, strokeWidth: 0.75},
      },
      axis: {labelColor: soft, titleColor: soft, gridColor: line, gridOpacity: 0.6, domainColor: line, tickColor: line,
             labelFont: font, titleFont: font, titleFontWeight: 500, labelFontSize: 11, titleFontSize: 11},
      axisY: {minExtent: 46, titlePadding: 6},
      legend: {labelColor: ink, titleColor: soft, labelFont: font, titleFont: font, orient: "top", symbolType: "stroke",
               labelFontSize: 11, labelLimit: 220, symbolStrokeWidth: 2.5, columns: innerWidth < 520 ? 1 : 4, padding: 0, offset: 4},
      title: {color: ink, font},
      // One meaning a colour on the whole page; the legend stands under "All cells" and "How fast".
      range: {category, judgement: [color("--good"), color("--bad"), soft, soft], front: [category[0], soft],
              safety: [color("--bad"), color("--good"), soft]},
    };
  };

  const fit = (spec, width) => {
    // The axis, its title and the frame take their share of the width; the rest is the plot's.
    if (spec.usermeta) { fitLabels(spec, width); return; }
    const plot = Math.max(140, Math.floor(width) - 74);
    (spec.vconcat || [spec]).forEach(view => { view.width = plot; });
  };

  // Charts with words on the left: the plot takes what the longest of them leaves, and on a narrow page words are cut.
  const fitLabels = (spec, width) => {
    const {data, field, limit} = spec.usermeta;
    const room = Math.min(limit, Math.floor(width * 0.45));
    const lengths = spec.datasets[data].flatMap(row => String(row[field]).split("|").map(line => line.length));
    const left = Math.min(room, Math.ceil(Math.max(...lengths) * 6.4));
    spec.layer.forEach(layer => {
      if (layer.encoding.y && layer.encoding.y.axis) layer.encoding.y.axis.labelLimit = room;
    });
    spec.width = Math.max(100, Math.floor(width) - Math.max(left, 46) - 40);
  };

  const draw = async element => {
    const chart = payload.charts[element.dataset.chart];
    if (!chart || !element.clientWidth) return;
    const spec = structuredClone(payload.specs[chart.spec]);
    spec.datasets = Object.fromEntries(Object.entries(chart.data).map(([name, columns]) => [name, rows(columns)]));
    spec.config = theme();
    if (chart.spec.startsWith("price")) spec.config.legend.symbolType = undefined, spec.config.legend.columns = 1;
    // Most charts have no band of the clocks' bound.
    if (spec.layer) spec.layer = spec.layer.filter(layer => !layer.data || layer.data.name !== "clock" || spec.datasets.clock.length);
    dropEmpty(spec);
    layersOf(spec).forEach(view => dropAbsent(view, spec.datasets));
    fit(spec, element.clientWidth);
    const old = views.get(element);
    if (old) old.finalize();
    views.set(element, await vegaEmbed(element, spec, {actions: false, renderer: "svg", mode: "vega-lite"}));
    element.dataset.drawn = String(element.clientWidth);
  };

  // The specification of a chart is shared: its legends name all series that there may be. Those that this chart's own data
  // do not have are left out. Their colours and shapes stay with their names.
  const layersOf = spec => (spec.vconcat || [spec]).flatMap(view => view.layer || [view]);
  const dropAbsent = (layer, datasets) => {
    const data = layer.data && datasets[layer.data.name];
    if (!data || !layer.encoding) return;
    Object.values(layer.encoding).forEach(channel => {
      const names = channel.scale && channel.scale.domain;
      if (channel.type !== "nominal" || channel.legend === null || !Array.isArray(names)) return;
      const there = new Set(data.map(row => row[channel.field]));
      channel.legend = {...channel.legend, values: names.filter(name => there.has(name))};
    });
  };
  // A lane chart without lanes would only be a riddle: panels whose own data are empty are left out. So are empty layers
  // of the panels that stay, because Vega warns of each. The zoom hangs on the name of the first layer of all.
  const dropEmpty = spec => {
    if (!spec.vconcat) return;
    const filled = layer => spec.datasets[layer.data.name].length > 0;
    const zoomed = spec.vconcat[0].layer.find(layer => layer.name);
    spec.vconcat = spec.vconcat.filter(view => view.layer.some(layer => layer.data.name !== "faults" && filled(layer)));
    spec.vconcat.forEach(view => { view.layer = view.layer.filter(filled); });
    const first = spec.vconcat[0], last = spec.vconcat[spec.vconcat.length - 1];
    if (!first) return;
    if (zoomed) first.layer[0].name = zoomed.name;
    last.layer.forEach(layer => {
      if (layer.encoding.x && layer.encoding.x.axis) Object.assign(layer.encoding.x.axis,
        {labels: true, ticks: true, title: "seconds since the cell began"});
    });
  };

  const failed = error => console.error("chart", error);
  const start = element => {
    if (element.dataset.drawn || !element.clientWidth) return Promise.resolve();
    element.dataset.drawn = "pending";
    return draw(element).catch(failed);
  };
  // What is in view comes first; the rest follows while nothing else is to do, so that print and a quick scroll find it.
  const watcher = new IntersectionObserver(
    entries => entries.forEach(entry => { if (entry.isIntersecting) start(entry.target); }), {rootMargin: "400px"});
  const charts = [...document.querySelectorAll("[data-chart]")];
  charts.forEach(element => watcher.observe(element));
  const idle = callback => window.requestIdleCallback ? requestIdleCallback(callback, {timeout: 1000}) : setTimeout(callback, 100);
  const drawRest = async () => {
    const next = charts.find(element => !element.dataset.drawn && element.clientWidth);
    if (!next) return;
    await start(next);
    idle(drawRest);
  };
  idle(drawRest);
  document.addEventListener("toggle", () => idle(drawRest), true);
  const redraw = force => charts.forEach(element => {
    if (views.has(element) && element.clientWidth && (force || element.dataset.drawn !== String(element.clientWidth)))
      draw(element).catch(failed);
  });
  dark.addEventListener("change", () => redraw(true));
  let timer;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(() => redraw(false), 200); });
  // A cell takes two pages of paper. Those of a sweep that passed are left out, unless the reader opened them.
  addEventListener("beforeprint", () => document.querySelectorAll("details.on-paper, .card details").forEach(d => { d.open = true; }));

  const reveal = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();

  document.querySelectorAll("table.sortable").forEach(table => {
    const bodies = [...table.tBodies].filter(body => !body.classList.contains("group-head"));
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        [...table.tHead.rows[0].cells].forEach(other => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const key = row => { const cell = row.cells[column]; return cell.dataset.sort ?? cell.textContent.trim(); };
        const compare = (a, b) => {
          const x = key(a), y = key(b), nx = parseFloat(x), ny = parseFloat(y);
          if (x === "" || y === "") return (x === "") - (y === "");
          return (isNaN(nx) || isNaN(ny) ? x.localeCompare(y) : nx - ny) * (up ? 1 : -1);
        };
        bodies.forEach(body => body.append(...[...body.rows].sort(compare)));
      });
    });
  });

  const cells = document.getElementById("cell-table");
  if (cells) {
    const verdict = document.getElementById("filter-verdict");
    const text = document.getElementById("filter-text"), count = document.getElementById("filter-count");
    const heads = [...cells.querySelectorAll(".group-head button")];
    const fold = (head, folded) => {
      const group = document.getElementById(head.getAttribute("aria-controls"));
      head.setAttribute("aria-expanded", String(!folded));
      group.hidden = folded;
      group.toggleAttribute("data-folded", folded);
    };
    heads.forEach(head => {
      fold(head, "fold" in head.dataset);
      head.addEventListener("click", () => fold(head, head.getAttribute("aria-expanded") === "true"));
    });
    const filter = () => {
      const all = [...cells.querySelectorAll("tr[data-verdict]")], wanted = text.value.toLowerCase();
      all.forEach(row => {
        row.hidden = (verdict.value && row.dataset.verdict !== verdict.value) || !row.textContent.toLowerCase().includes(wanted);
      });
      const found = all.filter(row => !row.hidden).length;
      count.textContent = found === all.length ? "" : `${found} of ${all.length} match`;
    };
    // Who asks for some cells wants to see them, whatever is folded.
    [verdict, text].forEach(control => control.addEventListener("input", () => {
      filter();
      if (verdict.value || text.value) heads.forEach(head => fold(head, false));
    }));
    filter();
    document.querySelectorAll("[data-column]").forEach(box => box.addEventListener("input", () => {
      cells.querySelectorAll(`[data-col="${box.dataset.column}"]`).forEach(cell => { cell.hidden = !box.checked; });
    }));
  }

  document.querySelectorAll("[data-copy]").forEach(button => button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    try { await navigator.clipboard.writeText(source.textContent); button.textContent = "copied"; }
    catch { getSelection().selectAllChildren(source); button.textContent = "selected: press Ctrl-C"; }
  }));
})();
