'use strict';
// Asks for a run whenever a control changes, and draws it. The state of the controls is in the URL.
const $ = id => document.getElementById(id);
const form = $('controls');
const problem = $('problem');
const lanes = [...document.querySelectorAll('.lane[id]:not(#demand)')];
const sliders = [...document.querySelectorAll('input[type=range]')];
const words = {s: ['second', 'a second', 's'], m: ['minute', 'a minute', 'min'], h: ['hour', 'an hour', 'h']};
const lengths = {s: 1000, m: 60000, h: 3600000};

// The engine.

let loaded = null; // the program without a server

function load() {
  return loaded ??= (async () => {
    if (typeof WebAssembly !== 'object') throw new Error('This page needs WebAssembly, which this browser does not have.');
    if (typeof Go !== 'function') throw new Error('wasm_exec.js could not be loaded.');
    const go = new Go();
    const response = await fetch('playground.wasm').catch(() => { throw new Error('playground.wasm could not be loaded. A page from a file:// address cannot load it: use a server of files.'); });
    if (!response.ok) throw new Error('playground.wasm could not be loaded: the server answered with ' + response.status + '.');
    const compiled = response.headers.get('Content-Type') === 'application/wasm' ?
      WebAssembly.instantiateStreaming(response, go.importObject) : WebAssembly.instantiate(await response.arrayBuffer(), go.importObject);
    const {instance} = await compiled;
    await new Promise(resolve => { globalThis.weirReady = resolve; go.run(instance); });
  })();
}

// ask returns the run for the query of a URL. An invalid query is a RangeError.
async function ask(query, signal) {
  let run;
  if (document.body.classList.contains('static')) {
    await load();
    run = JSON.parse(weirRun(query));
  } else {
    const response = await fetch('run?' + query, {signal, cache: 'no-store'}).catch(error => { throw signal.aborted ? error : new Error('The program does not answer. Is weir playground still running?'); });
    run = await response.json();
  }
  if (run.error) throw new RangeError(run.error);
  return run;
}

// The controls.

let follows = true; // the burst follows the limit

const chosen = name => form.elements[name].value;
const exact = range => form.querySelector('[data-of=' + range.id + ']');

function set(id, value) {
  $(id).value = value;
  exact($(id)).value = value;
}

// query returns the controls that are not in their first state.
function query() {
  const parts = [];
  for (const name of ['traffic', 'algorithm']) {
    const first = [...form.elements[name]].find(radio => radio.defaultChecked).value;
    if (chosen(name) !== first) parts.push(name + '=' + chosen(name));
  }
  if ($('per').value !== 'm') parts.push('per=' + $('per').value);
  for (const range of sliders) {
    if (range.id === 'burst' ? !follows : range.value !== range.defaultValue) parts.push(range.id + '=' + range.value);
  }
  return parts.join('&');
}

// show sets the controls to the parameters of a run.
function show(run) {
  form.elements.traffic.value = run.traffic;
  $('per').value = run.per;
  for (const range of sliders) set(range.id, run[range.id]);
  follows = run.burst === run.limit;
}

// fill replaces the words in braces.
function fill() {
  const unit = $('per').value, per = words[unit], many = $('clients').value > 1;
  const every = $('traffic').dataset.every, size = $('rate').value * every, less = Math.floor(size), more = Math.ceil(size);
  const values = {
    per: per[0], aper: per[1], requests: counted($('limit').value), longer: rounded(Math.round(lengths[unit] / 60)),
    every: {s: every * 1000 + ' ms', m: every * 60 + ' s', h: every * 60 + ' min'}[unit], size: less && less < more ? less + ' or ' + counted(more) : counted(more),
    ofone: many ? ' of one client' : '', all: many ? ', all clients' : '', ofclient: many ? ' of client 1' : '',
  };
  const text = template => template.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  for (const part of document.querySelectorAll('[data-text]')) part.textContent = text(part.dataset.text);
  $('about').textContent = text(form.querySelector('[name=traffic]:checked').dataset.about);
  const adversary = chosen('traffic') === 'adversary';
  $('rate').disabled = exact($('rate')).disabled = adversary;
  $('rate').parentElement.querySelector('[data-text]').textContent = adversary ? 'chosen by the adversary' : text('requests {aper}');
}

let timer = 0, running = null, took = 0;

// changed asks for a run, soon. The last state of a moving slider is always drawn.
function changed() {
  problem.textContent = '';
  fill();
  history.replaceState(null, '', query() ? '?' + query() : location.pathname);
  timer ||= setTimeout(() => { timer = 0; update(); }, Math.max(40, took));
}

async function update() {
  if (running) { // a run needs more time than the last one
    running.abort();
    took = Math.min(2000, 2 * Math.max(40, took));
  }
  const mine = running = new AbortController();
  const begin = performance.now();
  try {
    const run = await ask(query(), mine.signal);
    if (mine.signal.aborted) return;
    draw(run);
    took = performance.now() - begin;
  } catch (error) {
    if (!mine.signal.aborted) problem.textContent = error.message;
  } finally {
    if (running === mine) running = null;
  }
}

form.addEventListener('submit', event => event.preventDefault());
document.addEventListener('input', event => {
  const input = event.target;
  if (input.name === 'algorithm') {
    history.replaceState(null, '', query() ? '?' + query() : location.pathname);
    drawAnswer();
    return;
  }
  if (input.type === 'number') {
    if (input.value === '') return;
    $(input.dataset.of).value = input.value; // within its bounds
  }
  const range = $(input.dataset.of || input.id);
  if (range && range.type === 'range') set(range.id, range.value);
  if (range && range.id === 'burst') follows = range.value === $('limit').value;
  if (follows) set('burst', $('limit').value);
  changed();
});
document.addEventListener('change', event => {
  if (event.target.type === 'number') event.target.value = $(event.target.dataset.of).value; // if it is empty
});
$('restore').addEventListener('click', () => {
  const algorithm = chosen('algorithm');
  form.reset();
  form.elements.algorithm.value = algorithm;
  follows = true;
  changed();
});

// The drawing.

const counted = n => n + (Number(n) === 1 ? ' request' : ' requests');
const grouped = n => String(n).replace(/\B(?=(\d{3})+$)/g, '\u202f');
const seconds = ms => ms ? grouped(Math.floor(ms / 1000)) + (ms % 1000 ? '.' + String(ms % 1000).padStart(3, '0').replace(/0+$/, '') : '') + ' s' : '–';

// rounded returns a duration for people.
function rounded(ms) {
  if (ms < 1000) return ms + ' ms';
  if (ms < 10000) return Math.round(ms / 100) / 10 + ' s';
  if (ms < 99500) return Math.round(ms / 1000) + ' s';
  const minutes = Math.round(ms / 60000);
  if (minutes < 100) return minutes + ' min';
  return Math.floor(minutes / 60) + ' h' + (minutes % 60 ? ' ' + minutes % 60 + ' min' : '');
}

// byBurst reports whether the burst of a token bucket explains all that is over the limit.
const byBurst = (run, l) => l.algorithm === 'token_bucket' && l.worst.admitted > run.limit && l.worst.admitted <= run.limit + run.burst;

function ratio(run, l) {
  const most = l.worst.admitted, times = most / run.limit;
  const reason = byBurst(run, l) ? ', by its burst' : '';
  if (times <= 1) return '✓ within the limit';
  if (times === 2) return 'twice the limit' + reason;
  if (times >= 1.95 && times < 2) return 'almost twice the limit' + reason;
  return (times < 1.95 ? Math.max(1, Math.round(times * 100 - 100)) + ' % over the limit' : Math.round(times * 10) / 10 + ' times the limit') + reason;
}

const list = parts => parts.length > 1 ? parts.slice(0, -1).join(', ') + ' and ' + parts.at(-1) : parts.join('');

function svg(name, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const percent = part => (100 * part).toFixed(3) + '%';
const bars = 60; // each joins bins of the run

function joined(bins) {
  const sums = Array(bars).fill(0);
  bins.forEach((n, i) => { sums[Math.floor(i * bars / bins.length)] += n; });
  return sums;
}

// edges returns the lines between the periods.
function edges(run) {
  const periods = run.span / lengths[run.per];
  return Array.from({length: periods - 1}, (_, i) => svg('line', {class: 'edge', x1: percent((i + 1) / periods), x2: percent((i + 1) / periods), y1: 0, y2: '100%'}));
}

// stacks returns bars whose parts have classes and values. A part that is not zero can be seen.
function stacks(run, top, ...layers) {
  const area = svg('svg', {x: 0, y: 4, width: '100%', height: 48});
  for (let i = 0; i < bars; i++) {
    let y = 1;
    const parts = [];
    for (const [name, values] of layers) {
      if (!values[i]) continue;
      const height = Math.max(values[i] / top, 1 / 24);
      y -= height;
      parts.push(svg('rect', {class: name, x: percent(i / bars), y: percent(y), width: percent(0.85 / bars), height: percent(height)}));
    }
    if (!parts.length) continue;
    const title = svg('title', {}, rounded(run.span * i / bars) + ': ' + layers.map(([name, values]) => values[i] + ' ' + name).join(', '));
    area.append(svg('g', {}, title, ...parts));
  }
  return area;
}

// level returns the used part of the limit, as steps in a strip below the bars. At the line above it, the limit is full.
function level(values) {
  const steps = values.map((v, i) => 'V' + (100 - 100 * v).toFixed(1) + 'H' + (i + 1)).join('');
  return svg('svg', {x: 0, y: 56, width: '100%', height: 16, viewBox: '0 0 ' + values.length + ' 100', preserveAspectRatio: 'none'},
    svg('path', {class: 'full', d: 'M0 0H' + values.length}), svg('path', {class: 'level', d: 'M0 100' + steps + 'V100Z'}), svg('path', {class: 'line', d: 'M0 100' + steps}));
}

// band returns the span in which the most was admitted, with the whole bar in which it begins.
function band(run, worst) {
  const x = Math.floor(worst.begin * bars / run.span) / bars, width = Math.min((worst.begin + lengths[run.per]) / run.span, 1) - x;
  const over = worst.admitted > run.limit ? ' over' : '';
  return [svg('rect', {class: 'band' + over, x: percent(x), y: 0, width: percent(width), height: '100%'}),
    svg('rect', {class: 'bracket' + over, x: percent(x), y: 0, width: percent(width), height: 3})];
}

function meter(element, run, most, top) {
  const within = Math.min(most, run.limit);
  element.replaceChildren(svg('rect', {class: 'within', x: 0, y: 4, width: percent(within / top), height: 10}),
    svg('rect', {class: 'beyond', x: percent(within / top), y: 4, width: percent((most - within) / top), height: 10}),
    svg('line', {class: 'limit', x1: percent(run.limit / top), x2: percent(run.limit / top), y1: 0, y2: 18}));
}

function axis(run) {
  const periods = run.span / lengths[run.per];
  return Array.from({length: periods + 1}, (_, i) => svg('text', {x: percent(i / periods), y: 12, 'text-anchor': i === 0 ? 'start' : i === periods ? 'end' : 'middle'}, i ? i + ' ' + words[run.per][2] : '0'));
}

function drawLane(lane, run, l, top, most) {
  const name = lane.querySelector('h2').textContent, plot = lane.querySelector('.plot'), word = words[run.per][0];
  const worst = l.worst.admitted;
  lane.classList.toggle('over', worst > run.limit);
  lane.classList.toggle('burst', byBurst(run, l));
  plot.replaceChildren(...band(run, l.worst), ...edges(run), stacks(run, top, ['admitted', joined(l.passed)], ['denied', joined(l.rejected)]), level(l.level));
  plot.setAttribute('aria-label', name + ': ' + l.admitted + ' admitted, ' + l.denied + ' denied; at most ' + worst + ' in one ' + word + ', from ' + rounded(l.worst.begin) + ' on.');
  lane.querySelector('.most').textContent = grouped(worst);
  lane.querySelector('.ratio').textContent = ratio(run, l);
  lane.querySelector('.waits').textContent = l.delay ? 'a request waits up to ' + rounded(l.delay) : '';
  meter(lane.querySelector('.meter'), run, worst, most);
  const cells = document.querySelectorAll('tr[data-of=' + lane.id + '] td');
  const retry = n => n ? grouped(n) + ' s' : '–';
  [grouped(worst), grouped(l.admitted), grouped(l.denied), seconds(l.delay), retry(l.retry), retry(l.retry_max), l.queue ? grouped(l.queue) : '–'].forEach((text, i) => { cells[i].textContent = text; });
}

// verdict returns the result in a sentence.
function verdict(run, all) {
  const word = words[run.per][0], one = run.clients > 1 ? ' of one client' : '';
  const name = lane => 'the ' + lane.querySelector('h2').textContent.toLowerCase();
  const over = lanes.filter(lane => all[lane.id].worst.admitted > run.limit);
  if (!over.length) return 'With this traffic, none of them admits more than ' + grouped(run.limit) + ' in any ' + word + one + '.';
  const parts = over.map((lane, i) => name(lane) + (i ? ' ' : ' admits ') + grouped(all[lane.id].worst.admitted) + (i ? '' : one));
  return 'Within one ' + word + ', ' + list(parts) + '. The other' + (over.length === lanes.length - 1 ? ' admits' : 's admit') + ' at most ' + grouped(run.limit) + '.';
}

let drawn = null;

function draw(run) {
  drawn = run;
  const all = Object.fromEntries(run.lanes.map(l => [l.algorithm, l]));
  const tallest = run.lanes.flatMap(l => { const denied = joined(l.rejected); return joined(l.passed).map((n, i) => n + denied[i]); });
  const top = Math.max(...joined(run.demand), ...tallest);
  const most = Math.max(run.limit, ...run.lanes.map(l => l.worst.admitted));
  $('demand').querySelector('.plot').replaceChildren(...edges(run), stacks(run, top, ['requests', joined(run.demand)]));
  $('demand').querySelector('.plot').setAttribute('aria-label', run.requests + ' requests of all clients.');
  $('sent').textContent = (run.clients > 1 ? 'of ' + run.clients + ' clients. The limit is for each of them; together, they may get ' + run.clients + ' times as much.' : 'of one client.') +
    ' A bar is ' + rounded(Math.round(run.span / bars)).replace(' ', '\u00a0') + '; the tallest has ' + counted(Math.max(...joined(run.demand))) + '.';
  $('total').textContent = grouped(run.requests) + ' in ' + rounded(run.span);
  for (const part of document.querySelectorAll('.axis')) part.replaceChildren(...axis(run));
  for (const lane of lanes) drawLane(lane, run, all[lane.id], top, most);
  const text = verdict(run, all);
  if ($('verdict').textContent !== text) $('verdict').textContent = text;
  drawAnswer();
  performance.mark('drawn');
}

function drawAnswer() {
  if (!drawn) return;
  const l = drawn.lanes.find(one => one.algorithm === chosen('algorithm'));
  const capacity = /bucket/.test(l.algorithm) ? drawn.burst : drawn.limit;
  $('when').textContent = !l.denied ? 'Nothing was denied. After ' + counted(capacity) + ' at once, it would be:' :
    'It was sent ' + (l.denied_at ? rounded(l.denied_at) + ' after the beginning.' : 'at the beginning.');
  $('response').textContent = l.response;
  $('code').textContent = l.code;
  $('copy').textContent = 'Copy as Go';
}

$('copy').addEventListener('click', async () => {
  let copied = true;
  try {
    await navigator.clipboard.writeText($('code').textContent);
  } catch { // without a secure context or the permission
    getSelection().selectAllChildren($('code'));
    copied = document.execCommand('copy');
  }
  $('copy').textContent = copied ? 'Copied' : 'Not copied';
});

async function begin() {
  if (matchMedia('(max-width: 40rem)').matches) $('numbers').open = false;
  fill();
  const asked = location.search.slice(1), never = new AbortController().signal;
  let invalid = '';
  try {
    const algorithm = new URLSearchParams(asked).get('algorithm');
    const radio = [...form.elements.algorithm].find(one => one.value === algorithm);
    if (algorithm !== null && !radio) throw new RangeError('algorithm is "' + algorithm + '", and not one of ' + lanes.map(lane => lane.id).join(', '));
    const run = await ask(asked, never);
    if (radio) radio.checked = true;
    show(run);
    fill();
    draw(run);
  } catch (error) {
    if (error instanceof RangeError) {
      invalid = 'The address of this page is invalid: ' + error.message + '. The page is in its first state.';
      changed();
    } else {
      $('verdict').textContent = '';
      invalid = error.message;
    }
  }
  problem.textContent = invalid;
  $('all').disabled = false;
}
begin();
