// The server's JSON over HTTP. Every failure becomes an Error whose message can be shown.

/** A failure; `passing` if it may go away by itself: too busy, still loading, restarted. */
class ServerError extends Error {
  constructor(message, passing) {
    super(message);
    this.passing = passing;
  }
}

const PASSING = [429, 503, 504];

async function call(method, url, body) {
  let answer;
  try {
    answer = await fetch(url, {
      method,
      headers: method === "GET" ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new ServerError("The server does not respond. Is cfopt serve still running?", true);
  }
  const text = await answer.text();
  let data = null;
  try {
    data = JSON.parse(text);
  } catch {
    // an error of a proxy or of a server that stops: no JSON
  }
  if (!answer.ok) {
    throw new ServerError(detail(data) ?? `The server answered ${answer.status}.`, PASSING.includes(answer.status));
  }
  return data;
}

function detail(data) {
  if (typeof data?.detail === "string") return data.detail;
  if (Array.isArray(data?.detail)) return data.detail.map((one) => one.msg).join("; ");
  return null;
}

const at = (name) => `/api/pipelines/${encodeURIComponent(name)}`;

export const pipelines = () => call("GET", "/api/pipelines");
export const pipeline = (name) => call("GET", at(name));
export const stored = (name, row) => call("GET", `${at(name)}/contexts/${row}`);
export const thumbnails = (name) => `${at(name)}/thumbnails`;
export const decide = (name, context) => call("POST", "/api/decide", { pipeline: name, context });
/** The same, and in `unlike` whether the image is of another kind than those the model knows. */
export const judge = (name, context) => call("POST", "/api/decide", { pipeline: name, context, familiar: true });
export const explain = (request) => call("POST", "/api/explain", request);
export const task = (id) => call("GET", `/api/tasks/${encodeURIComponent(id)}`);
export const cancel = (id) => call("DELETE", `/api/tasks/${encodeURIComponent(id)}`);
export const download = (id, ending) => `/api/tasks/${encodeURIComponent(id)}/result.${ending}`;
export const events = (id) => new EventSource(`/api/tasks/${encodeURIComponent(id)}/events`);
