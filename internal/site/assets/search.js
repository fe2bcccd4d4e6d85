// Search in the pages. The index is one file, which is loaded when the field is used for the first time.
'use strict';
(() => {
  const root = document.body.dataset.root;
  const field = document.getElementById('query');
  const box = document.getElementById('results');
  const status = document.getElementById('found');
  const most = 12;
  let index;

  const load = () => {
    index ??= fetch(root + 'search.json').then((r) => {
      if (!r.ok) throw new Error(r.statusText);
      return r.json();
    }).catch((e) => { index = undefined; throw e; });
    return index;
  };

  const normal = (text) => (text || '').toLowerCase();

  // score is 0 unless every word occurs; titles count more than headings, and headings more than text.
  const score = (part, words) => {
    let total = 0;
    for (const w of words) {
      const at = (text, whole, inside) => {
        const i = normal(text).indexOf(w);
        if (i < 0) return 0;
        return i === 0 || /[^a-z0-9]/.test(normal(text)[i - 1]) ? whole : inside;
      };
      const best = at(part.title, part.head ? 4 : 12, 2) + at(part.head, 8, 3) + at(part.text, 2, 1);
      if (best === 0) return 0;
      total += best;
    }
    return total;
  };

  // around is the text beside the first word that was found.
  const around = (text, words) => {
    const i = Math.max(0, Math.min(...words.map((w) => normal(text).indexOf(w)).filter((n) => n >= 0), Infinity));
    const from = Number.isFinite(i) && i > 60 ? text.lastIndexOf(' ', i - 40) + 1 : 0;
    return (from > 0 ? '… ' : '') + text.slice(from, from + 150) + (text.length > from + 150 ? ' …' : '');
  };

  const close = () => { box.hidden = true; box.replaceChildren(); status.textContent = ''; };

  const note = (text) => {
    const p = document.createElement('p');
    p.textContent = text;
    box.replaceChildren(p);
    box.hidden = false;
    status.textContent = text;
  };

  const show = async () => {
    const words = normal(field.value).split(/\s+/).filter(Boolean);
    if (words.length === 0) return close();
    let parts;
    try {
      parts = await load();
    } catch {
      return note('The search index cannot be loaded from a folder. Use: tacit docs serve');
    }
    const found = parts.map((p) => [score(p, words), p]).filter(([n]) => n > 0).sort((a, b) => b[0] - a[0]).slice(0, most);
    if (found.length === 0) return note('No page has all of these words.');
    const list = document.createElement('ul');
    for (const [, p] of found) {
      const a = document.createElement('a');
      a.href = root + p.url;
      const title = document.createElement('b');
      title.textContent = p.head ? p.title + ': ' + p.head : p.title;
      const text = document.createElement('span');
      text.textContent = around(p.text || '', words);
      a.append(title, text);
      const item = document.createElement('li');
      item.append(a);
      list.append(item);
    }
    box.replaceChildren(list);
    box.hidden = false;
    status.textContent = found.length === 1 ? '1 result' : found.length + ' results';
  };

  const move = (step) => {
    const stops = [field, ...box.querySelectorAll('a')];
    const next = stops[stops.indexOf(document.activeElement) + step];
    if (next) next.focus();
  };

  field.form.addEventListener('submit', (e) => {
    e.preventDefault();
    const first = box.querySelector('a');
    if (first) first.click(); else show();
  });
  field.addEventListener('focus', () => { load().catch(() => {}); if (field.value) show(); });
  field.addEventListener('input', show);
  field.form.addEventListener('keydown', (e) => {
    if (e.key === 'Escape') { field.focus(); close(); }
    if (e.key === 'ArrowDown' || e.key === 'ArrowUp') { e.preventDefault(); move(e.key === 'ArrowDown' ? 1 : -1); }
  });
  document.addEventListener('click', (e) => { if (!field.form.contains(e.target)) close(); });
  box.addEventListener('click', (e) => { if (e.target.closest('a')) close(); });
  document.addEventListener('keydown', (e) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    if (e.key === '/' && !typing && !e.ctrlKey && !e.metaKey && !e.altKey) { e.preventDefault(); field.focus(); }
  });
  const asked = new URLSearchParams(location.search).get('q');
  if (asked) { field.value = asked; field.focus(); }
})();
