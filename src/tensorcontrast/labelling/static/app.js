// The page: asks the server, shows windows, sends labels. Names are always text, never markup.
'use strict';

(() => {
  const $ = (id) => document.getElementById(id);
  const client = (() => {
    let name = sessionStorage.getItem('client');
    if (!name) {
      name = Array.from(crypto.getRandomValues(new Uint8Array(9)), (b) => b.toString(16).padStart(2, '0')).join('');
      sessionStorage.setItem('client', name);
    }
    return name;
  })();

  let about = null, state = null, shown = null, spec = null, view = 'label';
  let busy = false, offline = false, problem = '', seconds = 0, since = 0, colourVersion = '', clusters = [], cluster = null, page = 0;
  const map = new draw.WindowMap($('map'), (i) => open(i));

  // ------------------------------------------------------------------ small helpers

  function make(tag, options = {}, ...children) {
    const e = document.createElement(tag);
    for (const [key, value] of Object.entries(options)) {
      if (key === 'text') e.textContent = value;
      else if (key === 'class') e.className = value;
      else if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
      else if (value !== null && value !== undefined) e.setAttribute(key, value);
    }
    e.append(...children);
    return e;
  }
  const percent = (p) => (p >= 0.995 && p < 1 ? '> 99' : p > 0 && p < 0.005 ? '< 1' : String(Math.round(100 * p))) + ' %';
  const count = (n, word) => `${n.toLocaleString('en')} ${word}${n === 1 ? '' : 's'}`;
  const clock = (s) => (s >= 3600
    ? `${Math.floor(s / 3600)}:${String(Math.floor(s / 60) % 60).padStart(2, '0')}:${String(Math.floor(s % 60)).padStart(2, '0')}`
    : draw.number(Math.round(100 * s) / 100));
  const when = (text) => { const d = new Date(text), p = (n) => String(n).padStart(2, '0'); return `${d.getFullYear()}-${p(d.getMonth() + 1)}-${p(d.getDate())} ${p(d.getHours())}:${p(d.getMinutes())}`; };
  const say = (text) => { $('say').textContent = text; };
  let said = false; // after the first action, a poll that is late must not replace what it said
  function status(text, bad = false) {
    said = true;
    $('status').textContent = text;
    $('status').classList.toggle('error', bad);
  }
  function trouble(text, command) {
    const box = $('trouble');
    if (!text) { box.hidden = true; return; }
    box.replaceChildren(text, ...(command ? [make('code', { text: command })] : []));
    box.hidden = false;
  }

  async function ask(path, body) {
    const options = body === undefined ? {} : {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ client, ...body }),
    };
    let answer;
    try {
      answer = await fetch('api/' + path, options);
    } catch {
      offline = true;
      trouble('The server does not answer. All labels that were saved are on disk. Start it again and open the new address:',
        about ? about.command : '');
      throw new Error('no answer');
    }
    if (offline) { offline = false; trouble(''); }
    const found = await answer.json();
    if (!answer.ok) throw Object.assign(new Error(found.error || answer.statusText), { status: answer.status, found });
    return found;
  }

  // One thing at a time: a key that is pressed twice labels one window. Undo and the table wait.
  const waiting = [];
  async function once(work, wait = false) {
    if (busy) { if (wait) waiting.push(work); return; }
    busy = true;
    try {
      await work();
    } catch (error) {
      if (error.status === 409) {
        status('Not saved', true);
        trouble(`Not saved: ${error.message}. Choose again to replace it.`);
        if (view === 'label' && shown) await open(shown.window);
      } else if (error.status) {
        status('Not saved', true);
        trouble(`Not saved: ${error.message}`);
      } else {
        status('Not saved', true);
      }
      say($('trouble').textContent);
    } finally {
      busy = false;
      if (waiting.length) once(waiting.shift());
    }
  }

  function look() { seconds = 0; since = document.hidden ? 0 : performance.now(); }
  function looked() { return (seconds + (since ? performance.now() - since : 0)) / 1000; }
  document.addEventListener('visibilitychange', () => {
    if (document.hidden && since) { seconds += performance.now() - since; since = 0; } else if (!document.hidden) since = performance.now();
  });

  // ------------------------------------------------------------------ the window

  function times(w) { return w.start_s === null ? '' : `${clock(w.start_s)}–${clock(w.end_s)}\u00a0s`; }

  async function open(i) {
    const found = await ask('window/' + i);
    setView('label');
    await show(found);
  }

  async function next() {
    const { window: found } = await ask('next', {});
    if (!found) {
      shown = null;
      $('where').textContent = 'Every window has a label';
      $('which').textContent = 'Review them, or finish.';
      paintClasses();
      return;
    }
    await show(found, true);
  }

  async function show(found, suggested = false) {
    shown = found;
    look();
    const recording = found.start_s === null ? `Window ${found.window}` : `Recording ${found.recording}`;
    $('where').textContent = found.start_s === null ? recording : `${recording}, ${times(found)}`;
    const parts = [];
    if (found.start_s !== null) parts.push(`window ${found.window}`);
    if (found.group !== undefined) parts.push(`subject ${found.group}`);
    if (found.label !== null) parts.push(`labelled ${found.label}${found.who ? ' by ' + found.who : ''}`);
    else if (suggested) parts.push('suggested');
    if (found.hidden_channels) parts.push(`${found.hidden_channels} more channels`);
    $('which').textContent = parts.join(' · ');
    $('before').disabled = found.before === null;
    $('after').disabled = found.after === null;
    map.current = found.window;
    map.show();
    paintClasses();
    draw.signals($('signals'), found);
    $('signals').setAttribute('aria-label', `Signals of ${recording} ${times(found)}: `
      + found.channels.map((c) => c.name + (c.unit ? ` in ${c.unit}` : '')).join(', '));
    showSpectrogram().catch(() => {});
  }

  async function showSpectrogram() {
    if (!shown) return;
    const at = shown, channel = $('channel').value;
    const found = await ask(`spectrogram/${at.window}?channel=${channel}`);
    if (at !== shown) return;
    spec = found;
    draw.spectrogram($('spectrogram'), spec, shown);
    $('spectrogram').setAttribute('aria-label', `Spectrogram of ${$('channel').selectedOptions[0].textContent}, 0 to ${draw.number(spec.nyquist)} ${spec.frequency_unit}`);
  }

  // ------------------------------------------------------------------ classes

  function classButton(k, item, share, pressed, hint, choose) {
    const key = k < 9 ? String(k + 1) : '';
    const fill = make('span', { class: 'fill' }), badge = make('kbd', { text: key || '·' });
    fill.style.background = badge.style.background = draw.classColour(k);
    fill.style.width = share === null ? '0' : `${100 * share}%`;
    const words = [`Label ${item.name}`];
    if (key) words.push(`key ${key}`);
    if (share !== null) words.push(`model ${percent(share)}`);
    words.push(count(item.count, 'label'));
    return make('button', {
      type: 'button', class: 'class', 'aria-label': words.join(', '), 'aria-pressed': String(pressed), title: item.name,
      onclick: () => choose(item.name),
    }, fill, badge, make('span', { class: 'name', text: item.name }), make('span', { class: 'share', text: hint }));
  }

  function keepFocus(box, items) {
    const at = [...box.children].indexOf(document.activeElement);
    box.replaceChildren(...items);
    if (at >= 0 && box.children[at]) box.children[at].focus();
  }

  function paintClasses() {
    if (!state) return;
    const shares = new Map((shown ? shown.guess : []).map((g) => [g.name, g.probability]));
    keepFocus($('classes'), state.classes.map((item, k) => {
      const share = shares.has(item.name) ? shares.get(item.name) : null;
      return classButton(k, item, share, Boolean(shown) && shown.label === item.name,
        share === null ? String(item.count || '') : percent(share), label);
    }));
    const held = shown && shown.label !== null && shown.held_out, best = held || (shown && shown.guess[0]);
    if (!state.classes.length) $('guess').textContent = 'N adds the first class';
    else if (best) $('guess').replaceChildren(held ? 'Model without this label: ' : 'Model: ', make('strong', { text: best.name }), `, ${percent(best.probability)}`);
    else $('guess').textContent = 'no model yet';
    for (const b of ['skip', 'before', 'after']) if (!shown) $(b).disabled = true;
    if (shown) $('skip').disabled = false;
  }

  // ------------------------------------------------------------------ labels

  function taken(found, text) {
    trouble('');
    apply(found.state);
    status(`Saved · ${count(state.labels, 'label')}`);
    say(text);
  }

  const label = (which) => once(async () => {
    if (!shown) return;
    status('Saving…');
    const found = await ask('label', { window: shown.window, label: which, expected: shown.label, seconds: looked() });
    taken(found, `Saved ${which}. ${count(found.state.labels, 'label')}.`);
    await next();
  });

  const skip = () => once(async () => {
    if (!shown) return;
    const found = await ask('skip', { window: shown.window, seconds: looked() });
    taken(found, 'Skipped.');
    await next();
  });

  const undo = () => once(async () => {
    const found = await ask('undo', {});
    if (!found.windows) { status('Nothing to undo'); say('Nothing to undo.'); return; }
    apply(found.state);
    status(`Undone · ${count(state.labels, 'label')}`);
    say(`Undone. ${count(state.labels, 'label')}.`);
    if (view === 'clusters') await loadClusters();
    else await show(await ask('window/' + found.windows[0]));
  }, true);

  function newClass() {
    $('name').value = '';
    $('dialogerror').textContent = '';
    $('dialog').showModal();
    $('name').focus();
  }
  $('form').addEventListener('submit', async (e) => {
    e.preventDefault();
    try {
      const found = await ask('class', { name: $('name').value });
      $('dialog').close();
      apply(found.state);
      paintClasses();
      if (view === 'clusters') paintCluster();
      say(`Added the class ${found.name}.`);
      status('Saved');
    } catch (error) {
      $('dialogerror').textContent = error.message;
    }
  });
  $('cancel').addEventListener('click', () => $('dialog').close());

  // ------------------------------------------------------------------ state

  function apply(found) {
    const before = state;
    state = found;
    $('disagreements').hidden = !state.disagreements;
    $('disagreements').textContent = state.disagreements || '';
    $('disagreements').setAttribute('aria-label', `${state.disagreements} disagreements`);
    if (before && JSON.stringify(before.classes) !== JSON.stringify(state.classes)) paintClasses();
    const last = state.curve[state.curve.length - 1];
    const model = state.model;
    const doing = model.doing ? model.doing + '…' : '';
    if (model.problem !== problem) {
      problem = model.problem;
      trouble(problem && 'The classifier could not be trained: ' + problem);
    }
    $('accuracy').textContent = doing || (last ? `${percent(last[1])} (${percent(last[2])} to ${percent(last[3])})` : 'after the first labels');
    $('maptext').textContent = model.ready ? 'dots: labels, pale: model' : 'dots: labels';
    if (!before || JSON.stringify(before.curve) !== JSON.stringify(state.curve)) {
      draw.curve($('curve'), state.curve, false);
      const text = last ? `Accuracy ${percent(last[1])} with ${count(last[0], 'label')}, 95 % interval ${percent(last[2])} to ${percent(last[3])}` : 'No accuracy yet';
      $('curve').setAttribute('aria-label', text);
      $('bigcurve').setAttribute('aria-label', text);
    }
    if (view === 'results') paintResults();
    paintFinish();
  }

  async function poll() {
    try {
      const before = state && state.model.version, found = await ask('state?client=' + client);
      apply(found);
      const version = `${found.version}/${found.model.version}/${found.model.labels}`;
      if (version !== colourVersion) { colourVersion = version; await loadColours(); }
      if (shown && before !== found.model.version && !busy) {
        const again = await ask('window/' + shown.window + '?small=1');
        if (shown && again.window === shown.window) { shown.guess = again.guess; shown.label = again.label; shown.held_out = again.held_out; paintClasses(); }
      }
      if (!said) status(`Ready · ${count(state.labels, 'label')}`);
    } catch { /* the message is there; the next poll tries again */ }
    const training = state && state.model.version < state.model.wanted;
    const writing = state && state.finish.state === 'running';
    setTimeout(poll, document.hidden ? 5000 : training || writing ? 250 : 1200);
  }

  async function loadColours() {
    const answer = await fetch('api/colours');
    map.colours = new Uint8Array(await answer.arrayBuffer());
    map.redraw();
  }

  // ------------------------------------------------------------------ clusters

  async function loadClusters() {
    clusters = await ask('clusters');
    const first = clusters.find((c) => c.labelled < c.windows) || clusters[0];
    await openCluster(first.cluster);
  }

  async function openCluster(k) {
    cluster = await ask('cluster', { cluster: k });
    look();
    paintCluster();
    const six = cluster.shown.map((w) => {
      const canvas = make('canvas', { role: 'img', 'aria-label': `Window ${w.window}: ${w.channels.map((c) => c.name).join(', ')}` });
      return make('figure', {}, make('figcaption', { text: w.start_s === null ? `Window ${w.window}` : `Recording ${w.recording}, ${times(w)}` }), canvas);
    });
    $('six').replaceChildren(...six);
    $('sixtext').textContent = `Channels from top to bottom: ${about.channels.slice(0, 32).join(', ')}.`;
    six.forEach((f, i) => draw.small(f.querySelector('canvas'), cluster.shown[i]));
  }

  function paintCluster() {
    $('clustertitle').textContent = `Cluster ${cluster.cluster + 1}`;
    $('clustersub').textContent = `${count(cluster.windows, 'window')}, ${cluster.left.toLocaleString('en')} without a label`;
    const row = clusters.find((c) => c.cluster === cluster.cluster) || {};
    $('clusterguess').textContent = row.guess ? `Model: ${row.guess} for ${percent(row.share)} of them` : 'Labels go to windows that have none.';
    keepFocus($('clusterclasses'), state.classes.map((item, k) => {
      const b = classButton(k, item, row.guess === item.name ? row.share : null, false, cluster.left ? `all ${cluster.left.toLocaleString('en')}` : '', labelCluster);
      b.disabled = !cluster.left;
      return b;
    }));
    $('clusterlist').replaceChildren(...clusters.map((c) => make('li', {}, make('button', {
      type: 'button', 'aria-current': String(c.cluster === cluster.cluster), onclick: () => once(() => openCluster(c.cluster)),
    }, make('span', { text: `Cluster ${c.cluster + 1}` }), make('span', { class: 'sub', text: c.guess || (c.labels || []).join(', ') }),
    make('span', { class: 'sub', text: `${c.labelled.toLocaleString('en')} of ${c.windows.toLocaleString('en')}` })))));
  }

  const labelCluster = (which) => once(async () => {
    status('Saving…');
    const found = await ask('label-cluster', { cluster: cluster.cluster, label: which, seconds: looked() });
    taken(found, `Saved ${count(found.saved, 'label')} of ${which}.`);
    await loadClusters();
  });

  function nextCluster() {
    const open = clusters.filter((c) => c.labelled < c.windows);
    if (!open.length) return;
    const at = open.findIndex((c) => c.cluster === cluster.cluster);
    once(() => openCluster(open[(at + 1) % open.length].cluster));
  }

  // ------------------------------------------------------------------ review

  async function loadReview() {
    const found = await ask('review?page=' + page);
    page = found.page;
    $('reviewtext').textContent = found.total
      ? `${count(found.total, 'label')}. ${found.disagreements ? count(found.disagreements, 'window') + ' where a model without the label says something else come first.' : 'Models without the label agree with all of them.'}`
      : 'There is no label yet.';
    $('rows').replaceChildren(...found.rows.map(reviewRow));
    $('pagetext').textContent = `${found.page + 1} of ${found.pages}`;
    $('pageback').disabled = found.page === 0;
    $('pageon').disabled = found.page + 1 >= found.pages;
  }

  function reviewRow(w) {
    const where = w.start_s === null ? `Window ${w.window}` : `Recording ${w.recording}, ${times(w)}`;
    const choice = make('select', { 'aria-label': `Label of ${where}` },
      ...state.classes.map((c) => make('option', { value: c.name, text: c.name })), make('option', { value: '', text: 'no label' }));
    choice.value = w.label;
    choice.addEventListener('change', () => once(async () => {
      status('Saving…');
      try {
        const found = await ask('label', { window: w.window, label: choice.value || null, expected: w.label, source: 'review' });
        taken(found, `Saved. ${where} is now ${choice.value || 'without a label'}.`);
      } finally {
        await loadReview();
      }
    }, true));
    const best = w.guess[0];
    return make('tr', w.disagrees ? { class: 'odd' } : {},
      make('td', { class: 'long', text: where, title: where }), make('td', {}, choice),
      make('td', { class: 'long', text: best ? `${best.name}, ${percent(best.probability)}` : '' }),
      make('td', { class: 'long', text: (w.who || '') + (w.source === 'cluster' ? ', cluster' : w.source === 'import' ? ', import' : '') }),
      make('td', { text: w.at ? when(w.at) : '' }),
      make('td', {}, make('button', { type: 'button', text: 'Show', 'aria-label': `Show ${where}`, onclick: () => once(() => open(w.window)) })));
  }
  $('pageback').addEventListener('click', () => { page -= 1; loadReview(); });
  $('pageon').addEventListener('click', () => { page += 1; loadReview(); });

  // ------------------------------------------------------------------ results

  let painted = '';
  function paintResults() {
    const m = state.model, last = state.curve[state.curve.length - 1];
    const parts = [count(state.labels, 'label')];
    if (last) parts.push(`estimated accuracy ${percent(last[1])} (95 % interval ${percent(last[2])} to ${percent(last[3])})`);
    if (m.changed !== null && m.changed !== undefined) parts.push(`the last ten labels changed ${percent(m.changed)} of the answers`);
    if (m.seconds) parts.push(`trained in ${m.seconds.toFixed(2)} s`);
    $('resulttext').textContent = parts.join(' · ') + (m.doing ? ` · ${m.doing}…` : '');
    const key = JSON.stringify([state.curve, state.confusion]);
    if (key === painted) return;
    painted = key;
    draw.curve($('bigcurve'), state.curve, true);
    const table = state.confusion;
    if (!table) {
      $('confusion').replaceChildren();
      $('confusiontext').textContent = 'After labels of two classes.';
      return;
    }
    $('confusiontext').textContent = `Labels (rows) by answers (columns) of models trained on other ${table.by === 'group' ? 'subjects' : 'windows'}.`;
    const head = make('tr', {}, make('td'), ...table.classes.map((c) => make('th', { scope: 'col', text: c, title: c })));
    $('confusion').replaceChildren(make('thead', {}, head), make('tbody', {}, ...table.counts.map((row, i) => {
      const total = row.reduce((a, b) => a + b, 0);
      return make('tr', {}, make('th', { scope: 'row', text: table.classes[i], title: table.classes[i] }), ...row.map((v) => {
        const share = total ? v / total : 0, fill = make('span', { class: 'fill' });
        fill.style.opacity = share;
        return make('td', { class: share > 0.55 ? 'strong' : '' }, fill, v ? String(v) : '');
      }));
    })));
  }

  let finishShown = '';
  function paintFinish() {
    const f = state.finish, key = JSON.stringify(f);
    if (key === finishShown) return;
    finishShown = key;
    $('finish').disabled = f.state === 'running';
    const box = $('finished');
    if (f.state === 'running') box.replaceChildren('Writing…');
    else if (f.state === 'failed') box.replaceChildren(make('p', { class: 'bad', text: f.text }));
    else if (f.state === 'done') {
      box.replaceChildren(make('p', { text: 'Written:' }), make('ul', {}, ...f.files.map((x) => make('li', {}, make('code', { text: x })))),
        make('p', { class: 'sub', text: 'Now:' }), make('code', { text: f.command }));
    } else box.replaceChildren();
  }
  $('finish').addEventListener('click', () => once(async () => apply((await ask('finish', {})).state)));
  $('file').addEventListener('change', () => once(async () => {
    const file = $('file').files[0];
    if (!file) return;
    const answer = await fetch('api/import?name=' + encodeURIComponent(file.name), { method: 'POST', body: file });
    const found = await answer.json();
    $('imported').textContent = answer.ok ? `Took ${count(found.saved, 'label')} from ${file.name}.` : found.error;
    $('file').value = '';
    if (answer.ok) apply(found.state);
  }));

  // ------------------------------------------------------------------ views and keys

  function setView(which) {
    if (view === which) return;
    view = which;
    for (const v of ['label', 'clusters', 'review', 'results']) $('view-' + v).hidden = v !== which;
    for (const b of document.querySelectorAll('nav button')) {
      if (b.dataset.view === which) b.setAttribute('aria-current', 'page'); else b.removeAttribute('aria-current');
    }
    redraw();
  }

  for (const b of document.querySelectorAll('nav button')) {
    b.addEventListener('click', async () => {
      setView(b.dataset.view);
      try {
        if (view === 'clusters') await loadClusters();
        if (view === 'review') { page = 0; await loadReview(); }
        if (view === 'label' && !shown) await next();
      } catch (error) {
        if (error.status) trouble(error.message);
      }
    });
  }

  function redraw() {
    painted = '';
    if (!state) return;
    if (view === 'label') {
      map.redraw();
      draw.curve($('curve'), state.curve, false);
      if (shown) draw.signals($('signals'), shown);
      if (shown && spec) draw.spectrogram($('spectrogram'), spec, shown);
      paintClasses();
    }
    if (view === 'results') paintResults();
    if (view === 'clusters' && cluster) {
      document.querySelectorAll('#six canvas').forEach((c, i) => draw.small(c, cluster.shown[i]));
      paintCluster();
    }
  }

  document.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.repeat || $('dialog').open) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
    const key = e.key.toLowerCase();
    if (view !== 'label' && view !== 'clusters') return;
    if (/^[1-9]$/.test(key)) {
      const item = state && state.classes[Number(key) - 1];
      if (item) { e.preventDefault(); if (view === 'label') label(item.name); else if (cluster && cluster.left) labelCluster(item.name); }
    } else if (key === 'u') { e.preventDefault(); undo(); } else if (key === 's') {
      e.preventDefault();
      if (view === 'label') skip(); else nextCluster();
    } else if (key === 'n') { e.preventDefault(); newClass(); }
  });

  $('new').addEventListener('click', newClass);
  $('skip').addEventListener('click', skip);
  $('undo').addEventListener('click', undo);
  $('clusterundo').addEventListener('click', undo);
  $('clusternext').addEventListener('click', nextCluster);
  $('before').addEventListener('click', () => once(() => open(shown.before)));
  $('after').addEventListener('click', () => once(() => open(shown.after)));
  $('channel').addEventListener('change', () => showSpectrogram().catch(() => {}));
  $('map').addEventListener('cursor', (e) => {
    const code = map.colours ? map.colours[e.detail] : 0;
    say(`Window ${e.detail}${code ? ', labelled ' + state.classes[code - 1].name : ''}. Enter shows it.`);
  });
  $('map').addEventListener('blur', () => map.show());
  let timer = 0;
  window.addEventListener('resize', () => { clearTimeout(timer); timer = setTimeout(redraw, 80); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);

  (async () => {
    try {
      about = await ask('about');
      document.title = `Label ${about.data}`;
      $('project').textContent = about.project;
      $('project').title = `${about.folder}/${about.project}`;
      $('channel').append(make('option', { value: '', text: 'all channels' }),
        ...about.channels.map((c, i) => make('option', { value: i, text: c })));
      apply(await ask('state?client=' + client));
      map.places = new Float32Array(await (await fetch('api/map')).arrayBuffer());
      await next();
      document.body.dataset.ready = '1';
      poll();
    } catch (error) {
      status('Cannot open', true);
      if ($('trouble').hidden) trouble(`The page cannot be opened: ${error.message}`);
    }
  })();
})();
