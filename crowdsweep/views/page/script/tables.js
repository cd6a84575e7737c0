// Tables: sorted by a column, filtered by a word, rows picked to be compared. Numbers are those that stand there.
const UNITS = { ms: 1e-3, s: 1, min: 60, h: 3600, MiB: 1, GiB: 1024 };
const amount = (text) => {
  const found = text.replaceAll(',', '').replace('\u2212', '-')
    .match(/^[^\d.+-]{0,2}([+-]?[\d.]+(?:e[+-]?\d+)?)\s*(ms|s|min|h|MiB|GiB)?/);
  return found ? found[1] * (UNITS[found[2]] ?? 1) : NaN;
};
const inWords = new Intl.Collator('en', { numeric: true, sensitivity: 'base' }).compare;

const sorted = (rows, column, isNumber, sign) => {
  const of = (row) => row.cells[column].textContent.trim();
  const blank = (row) => (isNumber ? Number.isNaN(amount(of(row))) : of(row) === '');
  const order = (a, b) => (isNumber ? amount(of(a)) - amount(of(b)) : inWords(of(a), of(b)));
  return rows.toSorted((a, b) => blank(a) - blank(b) || (blank(a) ? 0 : sign * order(a, b)));
};

const makeSortable = (table, rows, name) => {
  const heads = [...table.tHead.rows[0].cells];
  const titles = heads.map((head) => head.textContent);
  const choice = make('select', {}, new Option('as ranked', ''),
    ...titles.flatMap((title, column) => [new Option(`${title} \u2191`, `${column}+`), new Option(`${title} \u2193`, `${column}-`)]));
  const sort = (how) => {
    const column = parseInt(how, 10);
    const sign = how.endsWith('-') ? -1 : 1;
    const order = how ? sorted(rows, column, heads[column].classList.contains('r'), sign) : rows;
    table.tBodies[0].append(...order);
    heads.forEach((head, place) => {
      head.ariaSort = how === '' || place !== column ? 'none' : sign > 0 ? 'ascending' : 'descending';
    });
    choice.value = how;
    keep('sorted', name, how);
  };
  heads.forEach((head, column) => {
    const button = make('button', { type: 'button', title: 'sort' }, titles[column]);
    button.addEventListener('click', () => {
      const next = { none: `${column}+`, ascending: `${column}-`, descending: '' };
      sort(next[head.ariaSort]);
    });
    head.replaceChildren(button);
  });
  choice.addEventListener('change', () => sort(choice.value));
  const before = recall('sorted', name) ?? '';
  sort(parseInt(before, 10) < heads.length ? before : '');
  return make('label', { className: 'narrow' }, 'Sort by ', choice);
};

const makeFilter = (rows, name) => {
  const word = make('input', { type: 'search', value: recall('filtered', name) ?? '' });
  const count = make('output');
  const filter = () => {
    const wanted = word.value.trim().toLowerCase();
    const shown = rows.filter((row) => !(row.hidden = !row.textContent.toLowerCase().includes(wanted)));
    count.textContent = wanted ? `${shown.length} of ${rows.length} rows` : '';
    keep('filtered', name, word.value);
  };
  word.addEventListener('input', filter);
  filter();
  return [make('label', {}, 'Filter rows ', word), count];
};

// What all tables about the same thing say of the picked rows, which their first cells name, side by side.
const compared = (about, names) => {
  const lines = new Map();
  for (const table of document.querySelectorAll('table[data-about]')) {
    if (table.dataset.about !== about) continue;
    const title = table.dataset.title ? `${table.dataset.title}: ` : '';
    const found = names.map((name) => [...table.tBodies[0].rows].find((row) => row.dataset.name === name));
    [...table.tHead.rows[0].cells].slice(1).forEach((head, place) => {
      const values = found.map((row) => row?.cells[place + 1].textContent ?? '');
      if (values.some((value) => value)) lines.set(title + head.textContent, values);
    });
  }
  const head = make('tr', {}, make('th', {}, ''), ...names.map((name) => make('th', {}, name)));
  const body = [...lines].map(([line, values]) => {
    const cells = values.map((value, place) => {
      const cell = make('td', { className: 'wrap' }, value);
      cell.dataset.label = names[place];
      return cell;
    });
    return make('tr', {}, make('td', {}, line), ...cells);
  });
  return make('table', {}, make('thead', {}, head), make('tbody', {}, ...body));
};

const makePickable = (table, rows, name) => {
  const picked = new Set(recall('picked', name) ?? []);
  const panel = make('div', { className: 'compared screen', ariaLive: 'polite' });
  const show = () => {
    const names = rows.map((row) => row.dataset.name).filter((one) => picked.has(one));
    keep('picked', name, names);
    const words = names.length === 1 ? 'Tick one more row to compare the two.' : 'Tick rows to compare them.';
    panel.replaceChildren(...(names.length > 1
      ? [make('h4', {}, 'Compared'), make('div', { className: 'scroll' }, compared(table.dataset.about, names))]
      : [make('p', { className: 'note' }, words)]));
  };
  for (const row of rows) {
    const own = row.dataset.name;
    const box = make('input', { type: 'checkbox', className: 'screen', checked: picked.has(own), ariaLabel: `compare ${own}` });
    box.addEventListener('change', () => { picked[box.checked ? 'add' : 'delete'](own); show(); });
    row.cells[0].prepend(box);
  }
  table.parentElement.after(panel);
  show();
};

const FEW = 8;
for (const table of document.querySelectorAll('table')) {
  const rows = [...table.tBodies[0].rows];
  const { about, title } = table.dataset;
  const name = unique([table.closest('section')?.id, about, title, table.tHead.textContent].join('/'));
  for (const row of rows) row.dataset.name = row.cells[0].textContent.trim();
  if (rows.length < 2) continue;
  const tools = [makeSortable(table, rows, name), ...(rows.length > FEW ? makeFilter(rows, name) : [])];
  table.parentElement.before(make('div', { className: 'tools screen' }, ...tools));
  if (table.dataset.pick) makePickable(table, rows, name);
}
