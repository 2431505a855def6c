"use strict";
(() => {
  const root = document.documentElement;
  const darkQuery = window.matchMedia("(prefers-color-scheme: dark)");
  const redraws = [];
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : darkQuery.matches);
  const themeButton = document.getElementById("theme");
  const themed = () => {
    themeButton.textContent = isDark() ? "Light" : "Dark";
    themeButton.setAttribute("aria-pressed", String(isDark()));
    themeButton.setAttribute("aria-label", isDark() ? "Change to light colours" : "Change to dark colours");
    redraws.forEach((draw) => draw());
  };
  themeButton.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    themed();
  });
  darkQuery.addEventListener("change", themed);

  document.querySelectorAll(".copy").forEach((button) => {
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        window.getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  });

  const SVG = "http://www.w3.org/2000/svg";
  const make = (name, attributes, text) => {
    const node = document.createElementNS(SVG, name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
  const short = (value) => {
    const size = Math.abs(value);
    const text = size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(1) : String(Number(value.toPrecision(3)));
    return text.replace(/-/g, "\u2212");
  };
  const COLOURS = 8;
  const SHAPES = 5;
  const GREY = 7;

  // The same shapes, in the same order, as in the figures.
  const shape = (path, kind, x, y, r) => {
    if (kind === 0) { path.moveTo(x + r, y); path.arc(x, y, r, 0, 2 * Math.PI); return; }
    const corners = {
      1: [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
      2: [[0, -1.15], [1.1, 0.85], [-1.1, 0.85]],
      3: [[0, -1.3], [1.1, 0], [0, 1.3], [-1.1, 0]],
      4: [[0, 1.15], [1.1, -0.85], [-1.1, -0.85]],
    }[kind];
    corners.forEach(([dx, dy], k) => (k ? path.lineTo(x + dx * r, y + dy * r) : path.moveTo(x + dx * r, y + dy * r)));
    path.closePath();
  };

  const ticks = (low, high, count) => {
    const span = high - low;
    if (!(span > 0)) return [low];
    const rough = span / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= rough * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k += 1) found.push(k * step);
    return found;
  };

  const scatter = (box) => {
    const data = JSON.parse(document.getElementById(box.dataset.scatter).textContent);
    const axes = data.axes.map((axis) => {
      const codes = new Int16Array(bytes(axis.codes));
      const values = Float64Array.from(codes, (c) => axis.low + ((c + 32767) / 65534) * (axis.high - axis.low));
      return { name: axis.name, values, low: axis.low, high: axis.high };
    });
    const wave = data.wave;
    const nChannels = wave.channels.length;
    const nTimes = wave.times.length;
    const codes = new Int8Array(bytes(wave.codes));
    const lows = new Float32Array(bytes(wave.low));
    const highs = new Float32Array(bytes(wave.high));
    const canvas = box.querySelector("canvas");
    const context = canvas.getContext("2d");
    const status = box.querySelector(".about");
    const waveBox = box.querySelector(".wave");
    const legend = box.querySelector(".legend");
    const form = box.querySelector("form");
    form.addEventListener("submit", (event) => event.preventDefault());
    const fill = (select, names, chosen) => {
      names.forEach((name, k) => {
        const option = document.createElement("option");
        option.value = String(k);
        option.textContent = name;
        select.append(option);
      });
      select.value = String(Math.min(chosen, names.length - 1));
      select.addEventListener("change", () => { alone = -2; draw(); drawLegend(); });
    };
    let chosen = -1;
    let held = false;
    let alone = -2; // -2: all groups
    let px = new Float64Array(data.n);
    let py = new Float64Array(data.n);
    const axisOf = (name) => axes[Number(form.elements[name].value)];
    const colouring = () => data.colours[Number(form.elements.colour.value)] || { name: "", codes: [], labels: [] };

    const draw = () => {
      const rect = canvas.getBoundingClientRect();
      const ratio = window.devicePixelRatio || 1;
      if (!rect.width) return;
      canvas.width = Math.round(rect.width * ratio);
      canvas.height = Math.round(rect.height * ratio);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      const style = getComputedStyle(root);
      const token = (name) => style.getPropertyValue(name).trim();
      const palette = Array.from({ length: COLOURS }, (_, k) => token(`--c${k}`));
      const ax = axisOf("x");
      const ay = axisOf("y");
      const left = 44, right = 12, top = 10, bottom = 38;
      const width = rect.width - left - right, height = rect.height - top - bottom;
      const pad = 0.03;
      const place = (axis, size) => {
        const span = (axis.high - axis.low) || 1;
        return (v) => (pad + ((v - axis.low) / span) * (1 - 2 * pad)) * size;
      };
      const sx = place(ax, width), sy = place(ay, height);
      context.clearRect(0, 0, rect.width, rect.height);
      context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
      context.lineWidth = 1;
      context.fillStyle = token("--muted");
      context.strokeStyle = token("--line");
      context.textAlign = "center";
      for (const t of ticks(ax.low, ax.high, 5)) {
        const x = left + sx(t);
        context.beginPath(); context.moveTo(x, top); context.lineTo(x, top + height); context.stroke();
        context.fillText(short(t), x, top + height + 15);
      }
      context.fillText(ax.name, left + width / 2, top + height + 32);
      context.textAlign = "right";
      for (const t of ticks(ay.low, ay.high, 5)) {
        const y = top + height - sy(t);
        context.beginPath(); context.moveTo(left, y); context.lineTo(left + width, y); context.stroke();
        context.fillText(short(t), left - 6, y + 4);
      }
      context.save();
      context.translate(11, top + height / 2);
      context.rotate(-Math.PI / 2);
      context.textAlign = "center";
      context.fillText(ay.name, 0, 0);
      context.restore();
      for (let i = 0; i < data.n; i += 1) {
        px[i] = left + sx(ax.values[i]);
        py[i] = top + height - sy(ay.values[i]);
      }
      const groups = new Map();
      const by = colouring();
      for (let i = 0; i < data.n; i += 1) {
        const g = by.codes.length ? by.codes[i] : 0;
        if (!groups.has(g)) groups.set(g, []);
        groups.get(g).push(i);
      }
      const radius = data.n > 700 ? 2.8 : 3.6;
      context.strokeStyle = token("--surface");
      context.lineWidth = 0.5;
      for (const g of [...groups.keys()].sort((a, b) => a - b)) {
        context.globalAlpha = alone !== -2 && g !== alone ? 0.1 : g < 0 ? 0.5 : 0.9;
        context.fillStyle = palette[g < 0 ? GREY : g % COLOURS];
        context.beginPath();
        for (const i of groups.get(g)) shape(context, g < 0 ? 0 : g % SHAPES, px[i], py[i], radius);
        context.fill();
        context.stroke();
      }
      context.globalAlpha = 1;
      if (chosen >= 0) {
        context.strokeStyle = token("--ink");
        context.lineWidth = held ? 2.2 : 1.4;
        context.beginPath();
        context.arc(px[chosen], py[chosen], radius + 4, 0, 2 * Math.PI);
        context.stroke();
      }
    };

    const drawLegend = () => {
      const by = colouring();
      legend.replaceChildren();
      const there = [...new Set(by.codes)].sort((a, b) => a - b);
      const style = getComputedStyle(root);
      for (const g of there) {
        const item = document.createElement("li");
        const button = document.createElement("button");
        button.type = "button";
        button.setAttribute("aria-pressed", String(alone === g));
        const icon = make("svg", { viewBox: "-6 -6 12 12", "aria-hidden": "true" });
        const commands = [];
        const recorder = {
          moveTo: (x, y) => commands.push(`M${x} ${y}`), lineTo: (x, y) => commands.push(`L${x} ${y}`),
          arc: (x, y, r) => commands.push(`M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`),
          closePath: () => commands.push("Z"),
        };
        shape(recorder, g < 0 ? 0 : g % SHAPES, 0, 0, 4.2);
        icon.append(make("path", { d: commands.join(""), fill: style.getPropertyValue(`--c${g < 0 ? GREY : g % COLOURS}`).trim() }));
        const text = document.createElement("span");
        text.textContent = g < 0 ? "no label" : by.labels[g] ?? String(g);
        button.append(icon, text);
        button.addEventListener("click", () => { alone = alone === g ? -2 : g; draw(); drawLegend(); });
        item.append(button);
        legend.append(item);
      }
    };

    const drawWave = (i) => {
      const lane = nChannels <= 3 ? 96 : nChannels <= 6 ? 62 : 42;
      const width = 420, left = 8, top = 14, height = lane * nChannels;
      const svg = make("svg", { viewBox: `0 0 ${width} ${height + 50}`, role: "img", "aria-label": `Signal of window ${data.index[i]}, ${nChannels} channels` });
      const first = wave.times[0], last = wave.times[nTimes - 1];
      const x = (t) => left + ((t - first) / ((last - first) || 1)) * (width - 2 * left);
      for (let c = 0; c < nChannels; c += 1) {
        const at = i * nChannels + c;
        const lo = lows[at], hi = highs[at];
        // Its own range, but never so narrow that noise fills the lane.
        const span = Math.max(hi - lo, 0.25 * (wave.ranges[c][1] - wave.ranges[c][0]), 1e-30);
        const floor = (lo + hi - span) / 2;
        const y0 = top + c * lane;
        const y = (v) => y0 + lane - 6 - ((v - floor) / span) * (lane - 22);
        svg.append(make("line", { class: "base", x1: left, x2: width - left, y1: y0 + lane - 2, y2: y0 + lane - 2 }));
        const parts = [];
        let pen = false;
        for (let t = 0; t < nTimes; t += 1) {
          const code = codes[at * nTimes + t];
          if (code === -128) { pen = false; continue; }
          const v = lo + ((code + 127) / 254) * (hi - lo);
          parts.push(`${pen ? "L" : "M"}${x(wave.times[t]).toFixed(1)} ${y(v).toFixed(1)}`);
          pen = true;
        }
        svg.append(make("path", { class: "trace", d: parts.join("") }));
        svg.append(make("text", { class: "name", x: left, y: y0 + 10 }, wave.channels[c]));
        svg.append(make("text", { x: width - left, y: y0 + 10, "text-anchor": "end" }, `${short(lo)} to ${short(hi)} ${wave.units[c] || ""}`.trim()));
      }
      for (const t of ticks(first, last, 5)) {
        svg.append(make("text", { x: x(t), y: top + height + 13, "text-anchor": "middle" }, short(t)));
      }
      const more = wave.left_out ? `; ${wave.left_out} more channels not shown` : "";
      svg.append(make("text", { x: width / 2, y: top + height + 28, "text-anchor": "middle" }, `time (${wave.time_unit})${more}`));
      waveBox.replaceChildren(svg);
    };

    const choose = (i) => {
      if (i === chosen) return;
      chosen = i;
      draw();
      if (i < 0) return;
      const said = data.colours.map((c) => `${c.name} ${c.codes[i] < 0 ? "unknown" : c.labels[c.codes[i]] ?? c.codes[i]}`);
      status.textContent = [`Window ${data.index[i]}`, ...said].join(" · ");
      drawWave(i);
    };
    const nearest = (event, reach) => {
      const rect = canvas.getBoundingClientRect();
      const x = event.clientX - rect.left, y = event.clientY - rect.top;
      const by = colouring();
      let best = -1, least = reach * reach;
      for (let i = 0; i < data.n; i += 1) {
        if (alone !== -2 && by.codes[i] !== alone) continue;
        const d = (px[i] - x) ** 2 + (py[i] - y) ** 2;
        if (d < least) { least = d; best = i; }
      }
      return best;
    };
    canvas.addEventListener("pointermove", (event) => {
      if (held || event.pointerType === "touch") return;
      const i = nearest(event, 24);
      if (i >= 0) choose(i);
    });
    canvas.addEventListener("click", (event) => {
      const i = nearest(event, 30);
      held = i >= 0 && !(held && i === chosen);
      if (i >= 0) choose(i);
      draw();
    });
    const DIRECTIONS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { held = false; draw(); return; }
      if (event.key === "Enter" || event.key === " ") { held = chosen >= 0 && !held; draw(); event.preventDefault(); return; }
      const direction = DIRECTIONS[event.key];
      if (!direction) return;
      event.preventDefault();
      held = true;
      if (chosen < 0) { choose(0); return; }
      // The nearest point within 45 degrees of the key's direction.
      let best = -1, least = Infinity;
      for (let i = 0; i < data.n; i += 1) {
        const dx = px[i] - px[chosen], dy = py[i] - py[chosen];
        const along = dx * direction[0] + dy * direction[1];
        const aside = Math.abs(dx * direction[1]) + Math.abs(dy * direction[0]);
        if (i !== chosen && along > 0.5 && aside <= along && along + aside < least) { least = along + aside; best = i; }
      }
      if (best >= 0) choose(best);
    });
    fill(form.elements.x, axes.map((a) => a.name), 0);
    fill(form.elements.y, axes.map((a) => a.name), 1);
    fill(form.elements.colour, data.colours.map((c) => c.name), 0);
    if (!data.colours.length) form.elements.colour.parentElement.hidden = true;
    redraws.push(() => { draw(); drawLegend(); });
    new ResizeObserver(draw).observe(canvas);
    draw();
    drawLegend();
    if (data.n) choose(0);
  };
  document.querySelectorAll(".scatter").forEach(scatter);
  themed();
})();
