// Figures: the values of the point that a pointer or the arrow keys are at, and curves of which a part is drawn out.
const NEAR = 24; // pixels
const tip = make('div', { className: 'tip screen', role: 'status', hidden: true });
document.body.append(tip);
const draw = (name, settings, ...inside) => {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(settings)) element.setAttribute(key, value);
  element.append(...inside);
  return element;
};
const mapped = (value, [a, b], [c, d]) => c + ((value - a) / (b - a)) * (d - c);
const within = (value, ends, more = 0) => value >= Math.min(...ends) - more && value <= Math.max(...ends) + more;
const round = (low, high) => { // numbers between two others: at 1, 2, 5 and tens of these
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((one) => one * power >= rough) ?? 10);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, n) => Number(((first + n) * step).toPrecision(12)));
};

// One axes of a figure, across (0) and up (1). Places are in the figure's units; `seen` is the part of its frame that is
// drawn out over all of it. `ranges` are those of the data, where a part can be drawn out.
class Plot {
  constructor(svg, told, number) {
    Object.assign(this, told, { seen: told.frame });
    this.group = svg.querySelector(`[id$="-told-${number}"]`).parentNode;
  }

  get isWhole() { return this.seen === this.frame; }

  has(place) { return this.frame.every((ends, axis) => within(place[axis], ends, 0.1)); }

  at(place) { return place.map((one, axis) => mapped(one, this.seen[axis], this.frame[axis])); }

  back(place) { return place.map((one, axis) => mapped(one, this.frame[axis], this.seen[axis])); }

  shown() { return this.points.map(([x, y, words]) => [...this.at([x, y]), words]).filter((point) => this.has(point)); }

  see(part) {
    this.seen = part;
    const [zero, one] = [this.at([0, 0]), this.at([1, 1])];
    for (const { element, place } of this.parts ??= [...this.taken()]) {
      if (place) [element.x.baseVal.value, element.y.baseVal.value] = this.at(place);
      else element.setAttribute('transform', `matrix(${one[0] - zero[0]} 0 0 ${one[1] - zero[1]} ${zero.join(' ')})`);
    }
    this.group.classList.toggle('closer', !this.isWhole);
    this.ticks?.remove();
    if (!this.isWhole) this.group.append(this.ticks = draw('g', { class: 'ticks' }, ...this.marks(0), ...this.marks(1)));
  }

  * taken() { // lines are stretched within their frame, markers moved; what stands beside the data is hidden meanwhile
    for (const line of this.group.querySelectorAll(':scope > [id*="line2d"]')) {
      const drawn = line.querySelectorAll('[clip-path]');
      line.classList.toggle('aside', !drawn.length);
      for (const element of drawn) {
        if (element.matches('path')) {
          const frame = draw('g', { 'clip-path': element.getAttribute('clip-path') });
          element.removeAttribute('clip-path');
          element.setAttribute('vector-effect', 'non-scaling-stroke');
          element.replaceWith(frame);
          frame.append(element);
          yield { element };
        }
        for (const marker of element.querySelectorAll('use')) {
          yield { element: marker, place: [marker.x.baseVal.value, marker.y.baseVal.value] };
        }
      }
    }
  }

  marks(axis) { // ticks of the part, with their numbers or names
    const ends = this.seen[axis].map((end) => mapped(end, this.frame[axis], this.ranges[axis]));
    const named = (axis === 0 && this.names) || round(...ends).map((number) => [
      mapped(number, this.ranges[axis], this.frame[axis]), number.toLocaleString('en', { maximumSignificantDigits: 6 })]);
    const [[left], [bottom]] = this.frame;
    return named.filter(([place]) => within(place, this.seen[axis])).flatMap(([place, words]) => {
      const at = mapped(place, this.seen[axis], this.frame[axis]);
      const [line, text] = axis === 0
        ? [`M${at} ${bottom}v3.5`, { x: at, y: bottom + 12.5, 'text-anchor': 'middle' }]
        : [`M${left} ${at}h-3.5`, { x: left - 6, y: at + 3, 'text-anchor': 'end' }];
      return [draw('path', { d: line }), draw('text', text, words)];
    });
  }
}

const begin = (svg) => {
  const name = svg.ariaLabel;
  const plots = JSON.parse(svg.dataset.told).map((told, number) => new Plot(svg, told, number));
  const points = () => plots.flatMap((plot) => plot.shown());
  const ring = draw('circle', { class: 'ring', r: 5 });
  const frame = draw('path', { class: 'frame' });
  const reset = make('button', { type: 'button', className: 'screen', hidden: true }, 'Show all of it');
  svg.append(frame, ring);
  svg.after(reset);
  svg.tabIndex = 0;
  const place = (event) => {
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return [x, y];
  };

  let at = null; // the point that is told
  const show = (point) => {
    at = point;
    tip.hidden = !point;
    ring.classList.toggle('on', Boolean(point));
    if (!point) return;
    const [x, y, words] = point;
    ring.setAttribute('transform', `translate(${x} ${y})`);
    tip.textContent = words;
    const { x: left, y: top } = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${scrollX + Math.max(4, Math.min(left + 12, document.documentElement.clientWidth - width - 4))}px`;
    tip.style.top = `${scrollY + (top + 14 + height < innerHeight ? top + 14 : top - height - 12)}px`;
  };
  const see = (plot, part) => {
    plot.see(part);
    reset.hidden = plots.every((one) => one.isWhole);
    keep('closer', name, plots.map((one) => (one.isWhole ? null : one.seen)));
    show(null);
  };
  const all = () => plots.filter((plot) => !plot.isWhole).forEach((plot) => see(plot, plot.frame));

  let drag = null; // where the drawing of a frame around a part began, in which plot
  const corners = (event) => {
    const to = place(event).map((one, axis) => {
      const [low, high] = [Math.min(...drag.plot.frame[axis]), Math.max(...drag.plot.frame[axis])];
      return Math.min(Math.max(one, low), high);
    });
    return [0, 1].map((axis) => [drag.from[axis], to[axis]].sort((a, b) => (axis === 0 ? a - b : b - a)));
  };
  const leave = () => { drag = null; frame.removeAttribute('d'); };
  const listen = (kind, action) => svg.addEventListener(kind, action);
  const hover = (event) => {
    const [x, y] = place(event);
    const scale = svg.getScreenCTM().a;
    const apart = ([px, py]) => Math.hypot(px - x, py - y) * scale;
    const near = points().filter((point) => apart(point) < NEAR);
    show(near.length ? near.reduce((best, point) => (apart(point) < apart(best) ? point : best)) : null);
  };
  listen('pointerdown', (event) => {
    if (event.pointerType === 'touch') hover(event); // a finger that moves scrolls the page
    const from = place(event);
    const plot = plots.find((one) => one.ranges && one.has(from));
    if (!plot || event.pointerType === 'touch' || event.button) return;
    event.preventDefault(); // no text is selected
    svg.setPointerCapture(event.pointerId);
    drag = { plot, from };
  });
  listen('pointermove', (event) => {
    if (!drag) {
      hover(event);
      return;
    }
    const [[left, right], [bottom, top]] = corners(event);
    frame.setAttribute('d', `M${left} ${top}H${right}V${bottom}H${left}z`);
  });
  listen('pointerup', (event) => {
    if (!drag) return;
    const [[left, right], [bottom, top]] = corners(event);
    const { plot } = drag;
    leave();
    if (right - left < 4 || bottom - top < 4) return;
    const ends = [plot.back([left, bottom]), plot.back([right, top])];
    see(plot, [0, 1].map((axis) => ends.map((end) => end[axis])));
  });
  listen('pointercancel', leave);
  listen('pointerleave', (event) => { if (event.pointerType !== 'touch') show(null); });
  listen('blur', () => show(null));
  listen('dblclick', all);
  reset.addEventListener('click', all);
  addEventListener('beforeprint', all);
  listen('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === 'Escape') { all(); show(null); }
    const order = points().sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    if (!step || !order.length) return;
    event.preventDefault();
    const now = at ? order.findIndex((one) => String(one) === String(at)) : (step > 0 ? -1 : 0);
    show(order[(now + step + order.length) % order.length]);
  });
  recall('closer', name)?.forEach((part, number) => { if (part && plots[number]?.ranges) see(plots[number], part); });
};
document.querySelectorAll('svg[data-told]').forEach(begin);
document.querySelector('nav').after(make('p', { className: 'note screen' }, 'Point at a figure for its values, drag over '
  + 'a curve to see a part of it closely, and double-click to see all of it again; the arrow keys go from point to point. '
  + 'Heads of columns sort, and rows that are ticked are compared.'));
