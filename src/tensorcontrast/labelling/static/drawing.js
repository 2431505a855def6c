// Drawing on canvas: signals, spectrogram, map, accuracy. Nothing here asks the server.
'use strict';

const draw = (() => {
  const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif';
  const SMALL = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif';
  const LEFT = 92, RIGHT = 52;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
  const classColour = (k) => colour('c' + (k % 8));

  function rgb(hex) {
    const h = hex.length === 4 ? hex.replace(/[0-9a-f]/gi, '$&$&') : hex;
    return [1, 3, 5].map((i) => parseInt(h.slice(i, i + 2), 16));
  }

  // A canvas at the resolution of the screen, empty.
  function fresh(canvas, height) {
    if (height && canvas.style.height !== height + 'px') canvas.style.height = height + 'px';
    const box = canvas.getBoundingClientRect(), scale = window.devicePixelRatio || 1;
    const w = Math.max(1, box.width), h = Math.max(1, box.height);
    canvas.width = Math.round(w * scale);
    canvas.height = Math.round(h * scale);
    const c = canvas.getContext('2d');
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.font = FONT;
    c.textBaseline = 'middle';
    return [c, w, h];
  }

  // Round numbers between two ends.
  function ticks(low, high, most) {
    const span = high - low;
    if (!(span > 0)) return [low];
    const raw = span / most, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
    const out = [];
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) out.push(Math.abs(v) < step * 1e-9 ? 0 : v);
    return out;
  }

  function number(v) {
    if (v === 0) return '0';
    const a = Math.abs(v);
    if (a >= 1e5 || a < 1e-3) return v.toExponential(1).replace('e+', 'e');
    return String(Number(v.toPrecision(a >= 100 ? 4 : 3)));
  }

  function clip(c, text, width) {
    if (c.measureText(text).width <= width) return text;
    let n = text.length;
    while (n > 1 && c.measureText(text.slice(0, n) + '…').width > width) n -= 1;
    return text.slice(0, n) + '…';
  }

  function range(values) {
    let low = Infinity, high = -Infinity;
    for (const v of values) if (v !== null) { if (v < low) low = v; if (v > high) high = v; }
    if (!(high > low)) { const m = Number.isFinite(low) ? low : 0, d = Math.abs(m) || 1; return [m - d / 2, m + d / 2]; }
    return [low, high];
  }

  function trace(c, values, x, y) {
    c.beginPath();
    let open = false;
    for (let i = 0; i < values.length; i += 1) {
      const v = values[i];
      if (v === null) { open = false; continue; }
      if (open) c.lineTo(x(i), y(v)); else c.moveTo(x(i), y(v));
      open = true;
    }
    c.stroke();
  }

  function timeAxis(c, data, x, bottom, w, title) {
    const from = data.begin, to = data.begin + data.span, shift = data.start_s ?? 0;
    c.fillStyle = colour('muted');
    c.strokeStyle = colour('line');
    c.font = SMALL;
    c.textAlign = 'center';
    for (const t of ticks(from + shift, to + shift, w < 420 ? 4 : 8)) {
      const at = x(t - shift);
      c.beginPath(); c.moveTo(at, bottom); c.lineTo(at, bottom + 4); c.stroke();
      c.fillText(number(t), at, bottom + 12);
    }
    if (title) c.fillText(title, (x(from) + x(to)) / 2, bottom + 27);
  }

  const span = (data) => data.channels.length ? data.channels[0].values.length * data.step : 0;

  function signals(canvas, data) {
    const k = data.channels.length;
    const narrow = canvas.getBoundingClientRect().width < 480;
    const lane = Math.max(34, Math.min(72, (narrow ? 264 : 360) / k));
    const [c, w] = fresh(canvas, Math.round(lane * k + 40));
    const left = narrow ? 66 : LEFT, right = w - RIGHT, bottom = lane * k + 2;
    data.span = span(data);
    const x = (t) => left + (t - data.begin) / data.span * (right - left);
    c.fillStyle = colour('mark');
    c.fillRect(x(0), 0, x(data.length) - x(0), bottom);
    data.channels.forEach((channel, i) => {
      const top = lane * i + 5, height = lane - 10, [low, high] = range(channel.values);
      const y = (v) => top + (high - v) / (high - low) * height;
      c.strokeStyle = colour('line');
      c.lineWidth = 1;
      if (i) { c.beginPath(); c.moveTo(left, lane * i); c.lineTo(right, lane * i); c.stroke(); }
      c.textAlign = 'left';
      c.fillStyle = colour('ink');
      c.font = '600 ' + FONT;
      c.fillText(clip(c, channel.name, left - 12), 0, top + height / 2 - (channel.unit ? 7 : 0));
      c.fillStyle = colour('muted');
      c.font = SMALL;
      if (channel.unit) c.fillText(clip(c, channel.unit, left - 12), 0, top + height / 2 + 8);
      c.fillText(number(high), right + 6, top + 6);
      c.fillText(number(low), right + 6, top + height - 6);
      c.lineJoin = 'round';
      const at = (n) => x(data.begin + n * data.step);
      c.save();
      c.globalAlpha = 0.38;
      c.strokeStyle = colour('muted');
      c.lineWidth = 1.1;
      trace(c, channel.values, at, y);
      c.restore();
      c.save();
      c.beginPath();
      c.rect(x(0), 0, x(data.length) - x(0), bottom);
      c.clip();
      c.strokeStyle = colour('c0');
      c.lineWidth = 1.5;
      trace(c, channel.values, at, y);
      c.restore();
    });
    timeAxis(c, data, x, bottom, w, data.start_s === null ? `time in the window (${data.time_unit})` : 'time in the recording (s)');
  }

  function small(canvas, data) {
    const [c, w, h] = fresh(canvas);
    const k = data.channels.length, lane = h / k, total = span(data);
    c.strokeStyle = colour('c0');
    c.lineWidth = 1.2;
    c.lineJoin = 'round';
    data.channels.forEach((channel, i) => {
      const [low, high] = range(channel.values), top = lane * i + 3, height = lane - 6;
      trace(c, channel.values, (n) => n * data.step / total * w, (v) => top + (high - v) / (high - low) * height);
    });
  }

  function ramp() {
    const stops = ['s0', 's1', 's2', 's3'].map((n) => rgb(colour(n)));
    return (v) => {
      const at = Math.min(2.999, v * 3), i = Math.floor(at), f = at - i;
      return stops[i].map((a, j) => a + (stops[i + 1][j] - a) * f);
    };
  }

  function spectrogram(canvas, data, signalData) {
    const [c, w, h] = fresh(canvas);
    const left = w < 480 ? 66 : LEFT, right = w - RIGHT, top = 4, bottom = h - 34;
    const shade = ramp(), image = new ImageData(data.frames, data.frequencies);
    for (let t = 0; t < data.frames; t += 1) for (let f = 0; f < data.frequencies; f += 1) {
      const v = data.values[t * data.frequencies + f], o = 4 * ((data.frequencies - 1 - f) * data.frames + t);
      if (v < 0) continue;
      const [r, g, b] = shade(v / 255);
      image.data.set([r, g, b, 255], o);
    }
    const off = document.createElement('canvas');
    off.width = data.frames; off.height = data.frequencies;
    off.getContext('2d').putImageData(image, 0, 0);
    const x = (t) => left + (t - signalData.begin) / signalData.span * (right - left);
    const y = (f) => bottom - (f - data.low) / (data.high - data.low) * (bottom - top);
    c.save();
    c.beginPath(); c.rect(left, top, right - left, bottom - top); c.clip();
    c.fillStyle = colour('soft'); c.fillRect(left, top, right - left, bottom - top);
    c.imageSmoothingEnabled = true;
    c.drawImage(off, x(data.begin), top, x(data.begin + data.frames * data.step) - x(data.begin), bottom - top);
    c.globalAlpha = 0.6; c.fillStyle = colour('surface');
    c.fillRect(left, top, x(0) - left, bottom - top);
    c.fillRect(x(signalData.length), top, right - x(signalData.length), bottom - top);
    c.restore();
    c.font = SMALL; c.fillStyle = colour('muted'); c.textAlign = 'right';
    for (const f of ticks(data.low, data.nyquist, 4)) c.fillText(number(f), left - 6, Math.max(top + 5, y(f)));
    c.textAlign = 'left';
    c.fillText(data.frequency_unit === 'Hz' ? 'Hz' : '1/sample', 0, (top + bottom) / 2);
    const bar = c.createLinearGradient(0, bottom, 0, top);
    for (let i = 0; i <= 8; i += 1) bar.addColorStop(i / 8, `rgb(${shade(i / 8).map(Math.round).join(',')})`);
    c.fillStyle = bar; c.fillRect(right + 8, top, 6, bottom - top);
    c.fillStyle = colour('muted');
    c.fillText('0 dB', right + 17, top + 5);
    c.fillText('−' + data.range_db, right + 17, bottom - 5);
    timeAxis(c, { ...signalData }, x, bottom, w, 'time (' + signalData.time_unit + ')');
  }

  function curve(canvas, points, large) {
    const [c, w, h] = fresh(canvas);
    const left = 42, right = w - 8, top = 8, bottom = h - (large ? 40 : 32);
    const last = points.length ? points[points.length - 1][0] : 10, first = points.length ? Math.min(points[0][0], last - 1) : 0;
    const x = (n) => left + (n - first) / Math.max(1, last - first) * (right - left);
    const y = (v) => bottom - v * (bottom - top);
    c.font = SMALL; c.strokeStyle = colour('line'); c.fillStyle = colour('muted'); c.textAlign = 'right';
    for (const v of large ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1]) {
      c.beginPath(); c.moveTo(left, y(v)); c.lineTo(right, y(v)); c.stroke();
      c.fillText(Math.round(100 * v) + ' %', left - 5, y(v));
    }
    c.textAlign = 'center';
    if (points.length) for (const n of ticks(first, last, large ? 6 : 4)) if (Number.isInteger(n)) c.fillText(String(n), Math.min(x(n), right - 6), bottom + 12);
    c.fillText('labels', (left + right) / 2, bottom + 26);
    if (!points.length) return;
    c.beginPath();
    points.forEach(([n, , , high], i) => (i ? c.lineTo(x(n), y(high)) : c.moveTo(x(n), y(high))));
    points.slice().reverse().forEach(([n, , low]) => c.lineTo(x(n), y(low)));
    c.closePath();
    c.globalAlpha = 0.18; c.fillStyle = colour('c0'); c.fill(); c.globalAlpha = 1;
    c.strokeStyle = colour('c0'); c.lineWidth = 2; c.lineJoin = 'round';
    c.beginPath();
    points.forEach(([n, a], i) => (i ? c.lineTo(x(n), y(a)) : c.moveTo(x(n), y(a))));
    c.stroke();
    const [n, a] = points[points.length - 1];
    c.fillStyle = colour('c0'); c.beginPath(); c.arc(x(n), y(a), 3.5, 0, 7); c.fill();
  }

  // The map: points are drawn once per change of colours, the ring on top at every window.
  class WindowMap {
    constructor(canvas, pick) {
      this.canvas = canvas; this.pick = pick; this.places = new Float32Array(0);
      this.colours = null; this.current = null; this.cursor = null;
      canvas.addEventListener('click', (e) => {
        const found = this.nearest(e.offsetX, e.offsetY, 18);
        if (found !== null) this.pick(found);
      });
      canvas.addEventListener('keydown', (e) => this.key(e));
    }

    get n() { return this.places.length / 2; }

    at(i) {
      const m = 9, box = this.box;
      return [m + this.places[2 * i] * (box[0] - 2 * m), m + (1 - this.places[2 * i + 1]) * (box[1] - 2 * m)];
    }

    redraw() {
      const [c, w, h] = fresh(this.canvas);
      this.box = [w, h];
      const n = this.n, bytes = this.colours, size = n > 20000 ? 1.6 : n > 4000 ? 2.4 : 3.2;
      const base = document.createElement('canvas');
      base.width = this.canvas.width; base.height = this.canvas.height;
      const b = base.getContext('2d');
      b.setTransform(c.getTransform());
      b.fillStyle = colour('soft'); b.fillRect(0, 0, w, h);
      const labelled = [], groups = new Map();
      for (let i = 0; i < n; i += 1) {
        if (bytes && bytes[i]) { labelled.push(i); continue; }
        const key = bytes && bytes[n + i] ? bytes[n + i] : 0;
        let list = groups.get(key);
        if (!list) groups.set(key, list = []);
        list.push(i);
      }
      for (const [key, list] of groups) {
        b.fillStyle = key ? classColour(key - 1) : colour('muted');
        b.globalAlpha = key ? 0.5 : 0.4;
        for (const i of list) { const [x, y] = this.at(i); b.fillRect(x - size / 2, y - size / 2, size, size); }
      }
      b.globalAlpha = 1;
      b.strokeStyle = colour('surface');
      b.lineWidth = 1.2;
      const many = labelled.length > 3000, radius = many ? 2 : 4.2;
      for (const i of labelled) {
        const [x, y] = this.at(i);
        b.fillStyle = classColour(bytes[i] - 1);
        b.beginPath(); b.arc(x, y, radius, 0, 7); b.fill();
        if (!many) b.stroke();
      }
      this.base = base;
      this.show();
    }

    show() {
      if (!this.base) return;
      const c = this.canvas.getContext('2d');
      c.save();
      c.setTransform(1, 0, 0, 1, 0, 0);
      c.drawImage(this.base, 0, 0);
      c.restore();
      const ring = (i, r, dash) => {
        const [x, y] = this.at(i);
        c.setLineDash(dash);
        c.lineWidth = 4; c.strokeStyle = colour('surface'); c.beginPath(); c.arc(x, y, r, 0, 7); c.stroke();
        c.lineWidth = 2; c.strokeStyle = colour('ink'); c.beginPath(); c.arc(x, y, r, 0, 7); c.stroke();
        c.setLineDash([]);
      };
      if (this.current !== null && this.current < this.n) ring(this.current, 8, []);
      if (this.cursor !== null && document.activeElement === this.canvas) ring(this.cursor, 11, [3, 3]);
    }

    nearest(x, y, limit) {
      let best = null, least = limit * limit;
      for (let i = 0; i < this.n; i += 1) {
        const [a, b] = this.at(i), d = (a - x) ** 2 + (b - y) ** 2;
        if (d < least) { least = d; best = i; }
      }
      return best;
    }

    key(e) {
      const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
      if (e.key === 'Enter' && this.cursor !== null) { e.preventDefault(); this.pick(this.cursor); return; }
      if (!way || !this.n) return;
      e.preventDefault();
      const from = this.cursor ?? this.current ?? 0, [x, y] = this.at(from);
      let best = from, least = Infinity;
      for (let i = 0; i < this.n; i += 1) {
        const [a, b] = this.at(i), along = (a - x) * way[0] + (b - y) * way[1];
        if (along < 3) continue;
        const d = along + 2.5 * Math.abs((a - x) * way[1] + (b - y) * way[0]);
        if (d < least) { least = d; best = i; }
      }
      this.cursor = best;
      this.canvas.dispatchEvent(new CustomEvent('cursor', { detail: best }));
      this.show();
    }
  }

  return { signals, small, spectrogram, curve, WindowMap, classColour, number };
})();
