'use strict';
// Replaces the sections of the page every two seconds, with those of a new response.
const form = document.querySelector('form');
const refresh = document.getElementById('refresh');
const problem = document.getElementById('problem');
const shown = document.getElementById('shown');
let asked = document.querySelector('#key h2') ? new URLSearchParams(new FormData(form)) : null;
let loading = null;

function changed(section, next) {
  const selection = document.getSelection();
  const selected = selection && !selection.isCollapsed && section.contains(selection.anchorNode);
  return !selected && section.innerHTML !== next.innerHTML;
}

function replace(section, next) {
  const places = [...section.querySelectorAll('.scroll')];
  const focused = places.indexOf(document.activeElement);
  section.replaceChildren(...next.childNodes);
  section.querySelectorAll('.scroll').forEach((place, i) => {
    if (places[i]) place.scrollLeft = places[i].dataset.left || 0;
    if (i === focused) place.focus({preventScroll: true});
  });
}

async function load() {
  if (loading) loading.abort();
  const mine = loading = new AbortController();
  try {
    const request = {signal: mine.signal, cache: 'no-store'};
    if (asked) Object.assign(request, {method: 'POST', body: asked});
    const response = await fetch(location.origin + location.pathname + location.search, request);
    if (response.status === 401) refresh.checked = false;
    if (!response.ok) throw new Error('The server answered with ' + response.status + '.');
    const next = new DOMParser().parseFromString(await response.text(), 'text/html');
    for (const section of next.querySelectorAll('section')) {
      const old = document.getElementById(section.id);
      if (old && changed(old, section)) {
        for (const place of old.querySelectorAll('.scroll')) place.dataset.left = place.scrollLeft;
        replace(old, section);
      }
    }
    problem.textContent = '';
  } catch (error) {
    if (mine.signal.aborted) return;
    if (!problem.textContent) problem.textContent = 'Not refreshed since ' + new Date().toLocaleTimeString([], {hour12: false}) + ': ' + error.message;
  } finally {
    if (loading === mine) loading = null;
  }
}

document.addEventListener('submit', async event => {
  event.preventDefault();
  if (event.submitter && event.submitter.name === 'key') form.elements.key.value = event.submitter.value;
  const key = form.elements.key.value.trim();
  asked = key ? new URLSearchParams(new FormData(form)) : null;
  document.getElementById('key').replaceChildren();
  await load();
  scrollTo(0, 0);
  shown.textContent = problem.textContent ? '' : key && [...document.querySelectorAll('#key h3, #key .verdict')].map(part => part.textContent).join(': ');
});
document.addEventListener('click', event => {
  if (!event.target.matches('.copy')) return;
  getSelection().selectAllChildren(event.target.previousElementSibling);
  event.target.textContent = document.execCommand('copy') ? 'Copied' : 'Not copied';
});
refresh.addEventListener('change', () => { if (refresh.checked) load(); });
setInterval(() => { if (refresh.checked && !document.hidden && !loading) load(); }, 2000);
