// What a reader has set (sorted, filtered, picked, drawn out, unfolded) outlives the page's loading itself again.
const kept = (() => {
  try { return history.state?.kept ?? {}; } catch { return {}; }
})();
const recall = (kind, name) => kept[kind]?.[name];
const store = () => {
  try { history.replaceState({ kept }, ''); } catch { /* a frame that allows none */ }
};
let later = 0;
const keep = (kind, name, value) => {
  (kept[kind] ??= {})[name] = value;
  clearTimeout(later);
  later = setTimeout(store, 100);
};

const make = (name, settings = {}, ...inside) => {
  const element = Object.assign(document.createElement(name), settings);
  element.append(...inside);
  return element;
};

const times = new Map();
const unique = (where) => { // the same on every loading, whatever the page has more by then
  times.set(where, (times.get(where) ?? 0) + 1);
  return `${where}/${times.get(where)}`;
};

for (const details of document.querySelectorAll('details')) {
  const name = unique(`${details.closest('section')?.id}/${details.querySelector('summary').textContent}`);
  details.open = recall('unfolded', name) ?? details.open;
  details.addEventListener('toggle', () => keep('unfolded', name, details.open));
}

// A page that follows its sweep loads itself again when nobody is busy with it.
const every = Number(document.body.dataset.refresh);
if (every) {
  const began = Date.now();
  let busy = 0;
  for (const kind of ['pointermove', 'pointerdown', 'keydown', 'wheel', 'touchmove']) {
    addEventListener(kind, () => { busy = Date.now(); }, { passive: true });
  }
  const pause = make('button', { type: 'button', className: 'screen' });
  const show = () => { pause.textContent = recall('page', 'paused') ? 'Follow the sweep again' : 'Pause'; };
  pause.addEventListener('click', () => { keep('page', 'paused', !recall('page', 'paused')); show(); });
  show();
  document.querySelector('header').append(pause);
  setInterval(() => {
    const now = Date.now();
    if (recall('page', 'paused') || now - began < every * 1000 || now - busy < 2000) return;
    store();
    location.reload();
  }, 500);
}
