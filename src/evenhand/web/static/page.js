// Answer forms while the reader types, and follow an audit. Every page works without this script.
"use strict";

const PAUSE = 300; // milliseconds without a key before a form is sent
const WAIT = 5000; // milliseconds before a computation that takes long is asked for again

function replaceResult(text) {
  const next = new DOMParser().parseFromString(text, "text/html").getElementById("result");
  const result = document.getElementById("result");
  if (next && result) result.replaceWith(next);
  return next;
}

function answerLive(form) {
  let timer, asking;
  const ask = async () => {
    if (asking) asking.abort();
    asking = new AbortController();
    const result = document.getElementById("result");
    result.classList.add("waiting");
    const fields = new URLSearchParams(new FormData(form));
    const posts = form.method === "post";
    const address = posts ? form.action : `${form.action}?${fields}`;
    try {
      const answer = await fetch(address, {
        method: posts ? "POST" : "GET",
        body: posts ? fields : undefined,
        signal: asking.signal,
      });
      replaceResult(await answer.text());
      if (answer.status === 503) timer = setTimeout(ask, WAIT);
      if (!posts && answer.ok) history.replaceState(null, "", address);
    } catch (problem) {
      if (problem.name !== "AbortError") result.textContent = "The server does not answer. Is `evenhand serve` still running?";
    }
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    ask();
  });
}

function follow(address) {
  const events = new EventSource(address);
  let fetching = false, again = false;
  const refresh = async () => {
    if (fetching) {
      again = true;
      return;
    }
    fetching = true;
    try {
      const answer = await fetch(location.href);
      const next = replaceResult(await answer.text());
      if (next && next.dataset.state !== "running") {
        events.close();
        again = false;
      }
    } finally {
      fetching = false;
      if (again) {
        again = false;
        setTimeout(refresh, PAUSE);
      }
    }
  };
  events.addEventListener("message", refresh);
}

for (const form of document.querySelectorAll("form[data-live]")) answerLive(form);
const followed = document.querySelector("[data-events]");
if (followed) follow(followed.dataset.events);
